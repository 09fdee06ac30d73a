"""What ``synergy bench`` measures: one function a number, beside other systems where there are any."""
