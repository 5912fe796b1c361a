"""Data sets and loaders are in nn.data: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.data\n  hint: it is nn.data here, as in from tinygraft.nn.data import DataLoader",
    name=__name__,
)
