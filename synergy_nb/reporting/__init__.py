"""The journal's account of what happened, for people: why a request runs where it runs, or why it was refused."""
