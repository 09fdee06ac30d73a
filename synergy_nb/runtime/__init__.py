"""The driver in real time: peers on Dask workers, the streams between them, and what a notebook holds."""
