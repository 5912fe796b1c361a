"""What all methods are written with: hooks that make nodes, movement, arithmetic, reductions, indexing, creation.

A theme of `ops/` imports from here and from its own folder; what another theme has it reaches as a method.
"""
