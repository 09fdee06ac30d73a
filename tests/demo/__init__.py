"""The main job, complete."""
