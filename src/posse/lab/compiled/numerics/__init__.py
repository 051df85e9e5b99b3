"""Numerical functions for kernels: special functions, Gamma variates, quantiles."""
