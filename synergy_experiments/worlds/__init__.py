"""What experiments run on: simulated and live peers with their requests, networks and workloads."""
