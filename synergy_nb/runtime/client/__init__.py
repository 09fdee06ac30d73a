"""What a notebook holds: a cluster, its applications, their results and feeds, and what a call that waits displays."""
