"""Derivatives: a row for each op, and the walk that puts rows together.

Graph to gradient (`autograd/`). `vjp.py` has one row per op of the tensor graph, with a rule per source that
builds graph; `walk.py` visits only the nodes between the result and the targets, from the result backwards.
So a gradient is an ordinary lazy graph, scheduled together with what it came from, and can be differentiated
again. A tensor that was read is memory in the graph; what it was computed from is on the tape and put back
for the walk. A value with a derivative of its own (`functions.py`, `tensor/primitives/custom.py`) is a FUNCTION node
over the value and what it was computed from, with the rule in its arg; `engine/plan.py` leaves it out of what
is scheduled.
"""
