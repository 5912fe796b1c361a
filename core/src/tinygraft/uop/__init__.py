"""The graph: its nodes, what they mean, how they are built, checked, rewritten and shown."""

from tinygraft.uop import spec as spec  # so that SPEC=2 looks at every node from the first one on
