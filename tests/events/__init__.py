"""What happened: every event, the journal of them, and the states of an application."""
