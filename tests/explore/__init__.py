"""Pictures with sliders of the algorithms alone."""
