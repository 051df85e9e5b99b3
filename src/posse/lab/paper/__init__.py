"""The paper's figures: panels as data, their runs, claims, statistics and the report.

`panels` runs what one TOML file each describes, `analysis` compares with published values, `claims`
tests the paper's sentences, and `report` writes figures and page.
"""

from posse.lab.paper.analysis import AGREES as AGREES
from posse.lab.paper.analysis import BELOW as BELOW
from posse.lab.paper.analysis import DIFFERS as DIFFERS
from posse.lab.paper.analysis import FASTER as FASTER
from posse.lab.paper.analysis import WHY_BELOW as WHY_BELOW
from posse.lab.paper.analysis import summarise_agreement as summarise_agreement
from posse.lab.paper.claims import FAILS as FAILS
from posse.lab.paper.claims import HOLDS as HOLDS
from posse.lab.paper.claims import ONLY_PUBLISHED as ONLY_PUBLISHED
from posse.lab.paper.claims import UNTESTED as UNTESTED
from posse.lab.paper.panels import FULL_RUNS as FULL_RUNS
from posse.lab.paper.panels import QUICK_RUNS as QUICK_RUNS
from posse.lab.paper.panels import SEED as SEED
from posse.lab.paper.panels import Panel as Panel
from posse.lab.paper.panels import choose_panels as choose_panels
from posse.lab.paper.report_data import ClaimReport as ClaimReport
from posse.lab.paper.report_data import PanelReport as PanelReport
from posse.lab.paper.report_data import PaperProvenance as PaperProvenance
from posse.lab.paper.report_data import PaperReport as PaperReport
