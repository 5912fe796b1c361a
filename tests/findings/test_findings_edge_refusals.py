"""What was refused or crashed, by its number in the list of findings of 2026-11-21 (2.4)."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn
from tinygraft.errors import ShapeError
from tinygraft.nn.state import get_state_dict

INDICES = [True, False, (True, 0), (slice(None), True), (..., False), (None, True), (True, [0, 1]), (True, True)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_2_4_true_and_false_as_an_index(index: Any) -> None:
    """They are masks without axes: a new axis of one element or none, as in NumPy; read, written and in a copy."""
    ours, theirs = Tensor.arange(6).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(2, 3)
    found = ours[index]
    np.testing.assert_array_equal(found.numpy(), theirs[index])
    found += 1  # is no view
    assert ours.tolist() == theirs.tolist()
    ours = ours.contiguous()
    ours[index] = 7
    theirs[index] = 7
    assert ours.tolist() == theirs.tolist()


def test_2_4_a_reflection_with_a_side_that_is_cut() -> None:
    """pad (-1, 2) of 3 elements mirrors all of them, then cuts; the expected lists are PyTorch's."""
    line = Tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    for pads, expected in {
        (-1, 2): [2, 3, 2, 1],
        (2, -1): [3, 2, 1, 2],
        (-2, 1): [3, 2],
        (-2, 2): [3, 2, 1],
        (1, -2): [2, 1],
        (-1, -1): [2],
        (2, 2): [3, 2, 1, 2, 3, 2, 1],
    }.items():
        assert line.pad(pads, mode="reflect").tolist() == [[expected]]
    assert line.pad((-1, 2), mode="reflect").sum().gradient(line)[0].tolist() == [[[1.0, 2.0, 1.0]]]
    with pytest.raises(ShapeError, match=r"^pad with mode reflect has room for 2 on axis 2 of \(1, 1, 3\), got 0"):
        line.pad((-1, 3), mode="reflect")


def test_2_4_windows_of_no_elements_and_parts_of_an_empty_axis() -> None:
    """unfold(1, 0, 8), and split(0) where there is nothing to split."""
    x = Tensor.arange(6).reshape(2, 3)
    shapes = [x.unfold(*given).shape for given in ((1, 0, 8), (0, 0, 1), (1, 0, 2), (0, 2, 8))]
    assert shapes == [(2, 1, 0), (3, 3, 0), (2, 2, 0), (1, 3, 2)]
    assert x.unfold(1, 0, 1).tolist() == [[[], [], [], []]] * 2 and Tensor(1).unfold(0, 0, 1).shape == (0,)
    assert [part.shape for part in Tensor.zeros(0, 3).split(0)] == [(0, 3)]
    assert [part.shape for part in Tensor.zeros(3, 0).split(0, 1)] == [(3, 0)]
    with pytest.raises(ShapeError, match="^split needs parts of at least 1 element, got 0 for axis 0 of"):
        x.split(0)


@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        ("... -> (...)", (120,)),
        ("b ... -> b (...)", (2, 60)),
        ("a b ... -> (a b) ...", (6, 4, 5)),
        ("... c d -> ... (c d)", (2, 3, 20)),
        ("a b ... -> b (...) a", (3, 20, 2)),
        ("a b ... d -> b (a ...) d", (3, 8, 5)),
        ("a b c d ... -> ... a b c d", (2, 3, 4, 5)),
        ("a b c d ... -> a (...) b c d", (2, 1, 3, 4, 5)),
        ("a … d -> a (…) d", (2, 12, 5)),
    ],
)
def test_2_4_an_ellipsis_as_einops_has_it(formula: str, shape: tuple[int, ...]) -> None:
    """Any axes, also none, in parentheses on the right, written either way."""
    assert Tensor.arange(120).reshape(2, 3, 4, 5).rearrange(formula).shape == shape


def test_2_4_assigning_what_is_broadcast() -> None:
    """zeros(3, 5).assign(ones(5)), and of a number."""
    zeros = Tensor.zeros(3, 5)
    assert zeros.assign(Tensor.ones(5)).tolist() == [[1.0] * 5] * 3
    assert Tensor.zeros(2, 1).contiguous().assign(3).tolist() == [[3.0], [3.0]]


def test_2_4_the_shape_of_data() -> None:
    """A number has no axes, also as a memoryview."""
    assert Tensor(3).data().shape == () and Tensor(3).data()[()] == 3
    assert Tensor([3]).data().shape == (1,) and Tensor([[3.0]]).data().shape == (1, 1)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_2_4_pickles_of_every_protocol(protocol: int) -> None:
    """Values, gradients, views, parts, complex numbers and tensors without elements come back."""

    def again(t: Tensor) -> Tensor:
        found: Tensor = pickle.loads(pickle.dumps(t, protocol=protocol))
        return found

    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    found = again(x)
    assert found.grad is not None and (found.tolist(), found.grad.tolist()) == ([1.0, 2.0], [2.0, 4.0])
    assert found.requires_grad is True and again(Tensor([1 + 2j])).tolist() == [1 + 2j]
    assert again(Tensor.zeros(0, 3)).shape == (0, 3) and again(Tensor([[1, 2], [3, 4]]).T[1]).tolist() == [2, 4]
    assert again(Tensor([1, 2, 3, 4]).shard(("CPU", "CPU:1"), 0)).device == ("CPU", "CPU:1")


def test_2_4_protocol_5_copies_nothing() -> None:
    """Into a file or out of band the memory itself is written: 78 MB were needed for 32."""

    class Sink(io.RawIOBase):
        count = 0

        def write(self, data: Any) -> int:
            self.count += memoryview(data).nbytes
            return memoryview(data).nbytes

    big, sink, buffers = Tensor.arange(2**18).realize(), Sink(), list[pickle.PickleBuffer]()
    memory = big.nbytes()
    for dump in (
        lambda: pickle.dump(big, sink, protocol=5),
        lambda: buffers.extend([*out_of_band(big)]),
    ):
        tracemalloc.start()
        dump()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < memory / 8
    assert sink.count > memory and sum(memoryview(buffer).nbytes for buffer in buffers) == memory
    found: list[pickle.PickleBuffer] = []
    data = pickle.dumps(big, protocol=5, buffer_callback=found.append)
    back = pickle.loads(data, buffers=found)
    back[0] = 9
    assert back[1].item() == 1 and big[0].item() == 0


def out_of_band(t: Tensor) -> list[pickle.PickleBuffer]:
    """The buffers that a pickle of protocol 5 gives away."""
    found: list[pickle.PickleBuffer] = []
    pickle.dumps(t, protocol=5, buffer_callback=found.append)
    return found


OPTIMIZERS: dict[str, Callable[[list[Tensor]], Any]] = {
    "SGD": lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: nn.optim.Adam(p, lr=0.1),
    "Muon": lambda p: nn.optim.Muon(p, lr=0.1),
}
MOVES: dict[str, Callable[[Tensor, Any], Any]] = {
    "nothing": lambda p, optimizer: None,
    "state": lambda p, optimizer: [t.to_("CPU:1") for t in getattr(optimizer, "m", None) or optimizer.b],
    "lr": lambda p, optimizer: optimizer.lr.to_("CPU:1"),
    "parameter": lambda p, optimizer: p.to_("CPU:1"),
    "all": lambda p, optimizer: [t.to_("CPU:1") for t in get_state_dict(optimizer).values()],
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_2_4_state_of_an_optimizer_that_was_moved(kind: str) -> None:
    """State or parameters on another device: each stays where it is, and the steps are the same."""
    found = {}
    for name, move in MOVES.items():
        p = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = OPTIMIZERS[kind]([p])
        for step in range(3):
            with Tensor.train():
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
            if step == 0:
                move(p, optimizer)
        state = (getattr(optimizer, "m", None) or optimizer.b)[0]
        found[name] = p.tolist()
        assert p.device == ("CPU:1" if name in ("parameter", "all") else "CPU")
        assert state.device == ("CPU:1" if name in ("state", "all") else "CPU")
    assert all(values == found["nothing"] for values in found.values())


def test_2_4_a_python_number_is_put() -> None:
    """index_put and put of a number or a list, which were an AttributeError; 1.7: nothing where the index is empty."""
    x = Tensor([1, 2, 3])
    assert x.index_put((Tensor([1]),), 5).tolist() == [1, 5, 3]
    assert x.index_put((Tensor([1, 1]),), 5, accumulate=True).tolist() == [1, 12, 3]
    assert x.index_put((Tensor([1, 0]),), [5, 6]).tolist() == [6, 5, 3]
    assert x.put(Tensor([0, 2]), 9).tolist() == [9, 2, 9] and x.put(Tensor([0, 2]), [8, 7]).tolist() == [8, 2, 7]
    line = Tensor([[0, 1, 2]])
    assert line.index_put((slice(1, None), Tensor([1, 2])), Tensor(99)).tolist() == [[0, 1, 2]]
