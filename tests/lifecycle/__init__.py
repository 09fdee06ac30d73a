"""An application from its submission to its end: requests, moves, shared streams, take-overs, succession."""
