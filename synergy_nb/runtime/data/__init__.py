"""The components of a peer: sources, operators, parts on Spark, sinks, and the driver of their streams."""
