"""Active replicas: where they are, what they agree on, which streams they retain, and how lost ones are rebuilt."""
