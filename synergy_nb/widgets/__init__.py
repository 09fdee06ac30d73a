"""Reports, charts and live views for people. They read plans and journals, never a driver."""
