"""The main job, ``synergy demo``: a real query, composed by peers, on a real stream, its rows checked by DuckDB."""
