"""The reference engine: NumPy, readable; it defines every result."""
