"""The graph: its nodes, what they mean, how they are built, checked, rewritten and shown."""

from tinygraft.uop import graph_spec as graph_spec  # so that SPEC=2 looks at every node from the first one on
