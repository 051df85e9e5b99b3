"""Figures in a real Jupyter kernel: every cell that draws shows its figure."""

import nbclient
import nbformat
import pytest

# The reference engine, so that the kernel process has nothing to compile.
SET_UP = """
import posse

algorithms = {
    "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
    "alone": posse.Isolated(posse.ThompsonSampling()),
}
experiment = posse.Experiment(
    posse.Bandit.gaussian([0.5, 0.2]), posse.networks.cycle(3), algorithms,
    horizon=5, runs=2, engine="reference",
)
comparison = experiment.run()
grid = {"network.agents": [3, 4], "algorithms.dec-TS.learning_rate": [1, 3]}
sweep = posse.sweep(experiment, grid, folder="sweep")
"""
DRAWING = {
    "facets": "sweep.plot(x='network.agents', row='algorithms.dec-TS.learning_rate');",
    "comparison": "comparison.plot();",
    "result": "comparison['alone'].plot();",
    "heat map": "sweep.heat_map(algorithm='dec-TS');",
    "comparison again": "comparison.plot();",
    "the user's own": "import matplotlib.pyplot as plt; plt.subplots();",
}


# The backend of notebooks is loaded by the first figure: each kind of figure must be the first.
@pytest.mark.long
@pytest.mark.parametrize("first", ["comparison", "facets"])
def test_every_cell_that_draws_shows_its_figure(first, tmp_path):
    order = sorted(DRAWING, key=lambda name: name != first)
    cells = [nbformat.v4.new_code_cell(DRAWING[name]) for name in order]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SET_UP), *cells])
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    pictures = {
        name: sum("image/png" in output.get("data", {}) for output in cell.outputs)
        for name, cell in zip(order, cells, strict=True)
    }
    assert pictures == dict.fromkeys(order, 1)
