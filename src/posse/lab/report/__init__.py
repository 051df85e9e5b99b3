"""The report of anybody's comparison: one page that needs nothing but a browser, and its files."""
