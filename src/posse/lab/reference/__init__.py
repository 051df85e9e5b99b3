"""The reference engine: readable NumPy, which defines every result."""
