"""Functions of each element that are no op of the graph."""
