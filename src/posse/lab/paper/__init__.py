"""The paper's figures: panels as data, their runs, claims, statistics and the report.

`panels` runs what one TOML file each describes, `analysis` compares with published values, `claims`
tests the paper's sentences, and `report` writes figures and page.
"""
