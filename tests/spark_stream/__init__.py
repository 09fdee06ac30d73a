"""Parts of plans on Spark: its server, its operators, and the way of tuples between peers and Spark."""
