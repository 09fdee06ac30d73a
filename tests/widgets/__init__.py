"""Live views and the editor of plans, on the side of Python and in a browser."""
