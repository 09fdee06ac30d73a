"""The papers' experiments, the simulated and live systems that they run in, and benchmarks."""
