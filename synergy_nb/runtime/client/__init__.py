"""The client of a cluster, for notebooks: the cluster, its applications, their results and feeds, and displays."""
