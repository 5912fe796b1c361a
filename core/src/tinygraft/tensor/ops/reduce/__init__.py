"""Statistics, running and masked reductions."""
