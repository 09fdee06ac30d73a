"""Everything that produces a number: the papers' experiments, the worlds that they run in, and measurements."""
