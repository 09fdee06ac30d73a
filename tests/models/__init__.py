"""Formulas without peers, and admission, which asks them."""
