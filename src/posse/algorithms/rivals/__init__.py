"""Rivals: published algorithms of other authors, one file each."""
