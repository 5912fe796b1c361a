"""Ranks are in nn.parallel and collectives: there is no such module here, and importing it says so."""

raise ImportError(
    "there is no tinygraft.distributed\n"
    "  hint: it is nn.parallel here, as in nn.parallel.data_parallel(optimizer), with the ranks of "
    "tinygraft.collectives.world()",
    name=__name__,
)
