"""Published algorithms, one idea a module: what peers decide."""
