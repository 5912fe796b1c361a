"""Other shapes, stacks and splits of the same elements."""
