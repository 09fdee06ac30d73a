"""Placements that carry as many combinations of rates as possible, and their baselines."""
