"""The arena: every algorithm on a fixed suite of instances, ranked by paired differences."""
