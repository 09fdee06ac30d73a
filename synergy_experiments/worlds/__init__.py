"""The systems that experiments run on: simulated and live peers with requests, networks and workloads."""
