"""The paper's figures: panels as data, their runs, statistics, figures and the report."""
