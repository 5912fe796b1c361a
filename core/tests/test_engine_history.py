"""Histories: what was realised can still be differentiated, and says so when it cannot."""

import pytest

from tinygraft import Tensor
from tinygraft.engine import history
from tinygraft.errors import GraphError


def test_reading_a_loss_before_backward_keeps_its_gradient():
    """item() before backward() changes nothing."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    assert loss.item() == 5.0
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_several_realised_values_on_the_way_keep_the_gradient():
    """Histories may lead through further realised values."""
    x = Tensor([1.0, 4.0], requires_grad=True)
    h = x * x * x
    h.numpy()
    g = h.sqrt()
    g.numpy()
    z = (g * h).sum()
    z.item()
    z.backward()
    assert x.grad.tolist() == pytest.approx([4.5, 4.5 * 4.0**3.5], rel=1e-5)


def test_a_realised_value_is_a_target_of_gradient():
    """gradient() finds a tensor that has been realised since it was used."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    h = x * x
    z = (h * 3).sum()
    h.numpy()
    assert z.gradient(h)[0].tolist() == [3.0, 3.0]
    assert z.gradient(x)[0].tolist() == [6.0, 12.0]


def test_an_overwritten_value_is_an_error_with_its_remedy():
    """backward through memory that has a new value says so."""
    w = Tensor([3.0], requires_grad=True).realize()
    loss = (w * w).sum()
    loss.item()
    w.assign(w * 2).realize()
    with pytest.raises(GraphError) as caught:
        loss.backward()
    assert str(caught.value) == (
        "backward needs a value that has been overwritten since it was used\n"
        "  hint: call backward before the parameters are assigned to, as an optimizer's step does"
    )


def test_histories_die_with_their_memory():
    """A value that nobody holds has no history."""
    history.clear()
    x = Tensor([1.0], requires_grad=True)
    y = (x + 1).realize()
    assert len(history._past) == 1
    del y
    assert len(history._past) == 0


def test_a_loop_that_realises_its_state_does_not_grow():
    """Histories end after LONGEST realised values, and backward then says so."""
    w = Tensor([1.0], requires_grad=True).realize()
    h = Tensor([1.0])
    for _ in range(history.LONGEST + 20):
        h = (h * w).realize()
    assert len(history._past) <= history.LONGEST
    with pytest.raises(GraphError) as caught:
        h.backward()
    assert str(caught.value) == (
        f"backward reaches a value behind {history.LONGEST} others, each realised from the last; no more are kept\n"
        "  hint: call backward before, or detach() the state of the loop"
    )
