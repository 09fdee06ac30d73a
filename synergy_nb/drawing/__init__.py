"""Pictures of directed acyclic graphs, for notebooks, pages and terminals."""
