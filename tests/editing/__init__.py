"""Plans as text that people and pages edit."""
