"""Plans as values: what is asked, what is refused and why, their texts, and what follows from a plan."""
