"""What people look at: reports, charts and, in a notebook, views. They read plans and journals, never a driver."""
