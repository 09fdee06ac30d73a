"""Peers on Dask workers: links, processes, the data on event loops, and the client in a notebook."""
