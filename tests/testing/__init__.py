"""Tests of the room that authors test with."""
