"""nn.parallel in one process: what is said of names that other libraries have."""

import pytest

from tinygraft import nn


@pytest.mark.parametrize(("name", "meant"), [
    ("DistributedDataParallel", "\n  hint: data_parallel(optimizer)"),
    ("SyncBatchNorm", "\n  hint: nn.BatchNorm(channels, sync=True)"),
    ("barrier", "\n  hint: collectives.world().barrier()"),
    ("pmean", '\n  hint: all_reduce(t, "mean"), or t.mean() on a Mesh'),
    ("all_redcue", "\n  hint: did you mean 'all_reduce'?"),
    ("all_gather_object", "\n  hint: collectives.world().all_gather_object(value), which returns a list; totals adds "
     "numbers"),
    ("no_sync", "\n  hint: nothing: gradients are reduced by a step, however many backward come before it"),
    ("nothing_like_it", ""),
])  # fmt: skip
def test_names_of_other_libraries_are_answered(name, meant):
    """A name that is not there is an AttributeError that says what is used in its place."""
    with pytest.raises(AttributeError) as error:
        getattr(nn.parallel, name)
    assert str(error.value) == f"module 'tinygraft.nn.parallel' has no attribute {name!r}{meant}"
