"""Operators and the tuples that they execute on, their expressions, their memory, and what is measured of them."""
