"""Sweeps: one experiment over a grid of its settings, stored part by part."""

from posse.lab.sweeps.figures import ALGORITHM as ALGORITHM
from posse.lab.sweeps.figures import Dimension as Dimension
from posse.lab.sweeps.figures import draw_plot as draw_plot
from posse.lab.sweeps.figures import list_dimensions as list_dimensions
from posse.lab.sweeps.files import read_sweep as read_sweep
from posse.lab.sweeps.files import write_sweep as write_sweep
from posse.lab.sweeps.grid import axis as axis
from posse.lab.sweeps.grid import describe_cell as describe_cell
from posse.lab.sweeps.significance import choose_dimension as choose_dimension
from posse.lab.sweeps.significance import compute_significance as compute_significance
