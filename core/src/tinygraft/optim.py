"""Optimizers are in nn.optim: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.optim\n  hint: it is nn.optim here, as in from tinygraft.nn.optim import AdamW",
    name=__name__,
)
