"""What a method does beside its graph is noted while its call is recorded, and nothing otherwise."""

from __future__ import annotations

import numpy as np

from tinygraft import Tensor
from tinygraft.tensor import templates
from tinygraft.tensor.state import recording
from tinygraft.uop.uop import UOp


def test_a_check_is_noted_only_for_a_stand_in_in_a_recorded_call():
    """A check is noted only for a stand in in a recorded call."""
    index = Tensor([0, 1]).realize()
    assert not recording.again(print, (index,), 1)
    shown = Tensor(UOp.stand_in(index.uop, "an index"))
    assert not recording.again(print, (shown,), 1)
    recording.here.open = (call := recording.Recording(),)
    try:
        assert recording.again(print, (shown,), 1) and not recording.again(print, (index,), 1)
        recording.named(shown.uop, "it")
        assert call.is_pure
        recording.impure()
    finally:
        recording.here.open = ()
    assert call.checks == [(print, [shown.uop], (1,))] and call.names == [(shown.uop, "it")] and not call.is_pure


def test_a_method_that_writes_or_reads_has_no_template():
    """A method that writes or reads has no template."""
    templates.clear()
    x, mean, var = (
        Tensor(np.ones((4, 2), np.float32)).realize(),
        Tensor.zeros(2).contiguous(),
        Tensor.ones(2).contiguous(),
    )
    for number in range(1, 5):
        x.batch_norm(mean, var, training=True, momentum=0.5).realize()
        np.testing.assert_allclose(mean.numpy(), 1 - 0.5**number)
    for top in (2, 3, 4, 5):
        assert Tensor([0, top]).one_hot(-1).shape == (2, top + 1)
