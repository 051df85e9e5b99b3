"""Tests of Posse; a package, because others install one of the same name."""
