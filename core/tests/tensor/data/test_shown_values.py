"""The text of tensors: values that are in memory, beside NumPy's text of them, and nodes of those that are lazy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tinygraft import Device, GlobalCounters, Tensor, TinyJit, dtypes
from tinygraft.device.buffer import Buffer
from tinygraft.device.pool import pool_of
from tinygraft.tensor.data import shown_values

KINDS = st.sampled_from(["float32", "float64", "float16", "int64", "uint8", "int16", "bool", "complex64"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
TWO = ("PYTHON", "PYTHON:1")


def expected(values: np.ndarray, name: str, where: object = "PYTHON", grad: str = "None") -> str:
    """The text of a tensor with these values, by NumPy's own function on the whole array."""
    body = np.array2string(values, separator=", ", prefix="<Tensor ")
    return f"<Tensor {body} {name} {values.shape} on {where} with grad {grad}>"


@settings(max_examples=30, deadline=None)
@given(
    KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)))
)
def test_values_print_as_numpy_prints_them(values: np.ndarray) -> None:
    """For every dtype and shape, also above the 1,000 elements from which NumPy shortens."""
    t = Tensor(values, device="PYTHON").clone().realize()
    assert repr(t) == expected(values, t.dtype.name)


def test_large_values_are_shortened_and_only_the_edges_are_read() -> None:
    """A matrix of 9 million elements prints as NumPy prints it, from 49 elements."""
    values = np.arange(9_000_000, dtype=np.int32).reshape(3000, 3000)
    t = Tensor(values, device="PYTHON")
    seen = []
    gathered = shown_values._elements
    try:
        shown_values._elements = lambda buffer, kind, index: seen.append(len(index)) or gathered(buffer, kind, index)  # type: ignore[func-returns-value]
        assert repr(t) == expected(values, "int")
    finally:
        shown_values._elements = gathered
    assert seen == [49]


def test_numpys_print_options_are_those_of_tensors() -> None:
    """Digits, the threshold and the edges follow numpy.printoptions."""
    values = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)
    t = Tensor(values, device="PYTHON").realize()
    with np.printoptions(precision=2, threshold=5, edgeitems=1):
        assert repr(t) == expected(values, "float")


def test_views_of_memory_show_their_values() -> None:
    """What only moves memory is shown: parts, transposed, flipped, repeated and reshaped ones."""
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = Tensor(values, device="PYTHON").realize()
    wanted = [(t[1], values[1]), (t.permute(2, 0, 1), values.transpose(2, 0, 1)), (t.flip(1), values[:, ::-1]),
              (t[:, 1:].reshape(4, 4).T, values[:, 1:].reshape(4, 4).T), (t[0, 0, 3], values[0, 0, 3]),
              (t[:1].expand(3, 3, 4), np.broadcast_to(values[:1], (3, 3, 4))), (t[2:], values[2:]),
              (t[:, ::2, 1::2], values[:, ::2, 1::2]), (t[:, ::-2], values[:, ::-2])]  # fmt: skip
    for view, array in wanted:
        assert repr(view) == expected(array, "float")


def test_bits_and_padding() -> None:
    """A bitcast shows its values, which are in memory; what padding adds is not, and prints as a lazy tensor."""
    values = np.array([1.5, -2.0], np.float32)
    t = Tensor(values, device="PYTHON").realize()
    assert repr(t.bitcast("int32")) == expected(values.view(np.int32), "int")
    assert "<UOp" in repr(t.bitcast("uint8"))
    assert "<UOp" in repr(t.pad((1, 0)))


def test_a_pending_write_shows_no_old_value() -> None:
    """After an assign that is still to be computed the tensor and its views print as lazy ones; then the new value."""
    t = Tensor([1.0, 2.0], device="PYTHON").realize()
    view = t[:1]
    t.assign(t + 1)
    assert "Ops.ASSIGN" in repr(t)
    assert "<UOp" in repr(view)
    t.realize()
    assert (repr(t), repr(view)) == (expected(np.float32([2, 3]), "float"), expected(np.float32([2]), "float"))


def test_small_floats_print_four_digits() -> None:
    """bfloat16 and fp8, which NumPy lacks, print as the float32 of their value, with 4 digits."""
    for dtype in (dtypes.bfloat16, *dtypes.fp8s):
        t = Tensor([0.1, 2.0, -3.5], device="PYTHON").cast(dtype).realize()
        with np.printoptions(precision=4):
            assert repr(t) == expected(np.float32(t.tolist()), dtype.name)


def test_gradients_are_shown_without_their_own() -> None:
    """One line is continued, several are indented below; a gradient that is its own gradient ends."""
    t = Tensor([1.0, 2.0], device="PYTHON", requires_grad=True)
    t.grad = Tensor([3.0, 4.0], device="PYTHON")
    t.grad.grad = t.grad
    assert repr(t).endswith("with grad <Tensor [3., 4.] float (2,) on PYTHON>>")
    t = Tensor([[1.0], [2.0]], device="PYTHON")
    t.grad = t.detach()
    assert repr(t).endswith("with grad\n  <Tensor [[1.],\n           [2.]] float (2, 1) on PYTHON>>")


def test_tensors_on_several_devices_show_all_values() -> None:
    """Cut along an axis, unevenly and with an empty part, or the same everywhere."""
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    for t in (Tensor(values).shard(TWO, 0), Tensor(values).shard(TWO, 1), Tensor(values).shard(TWO),
              Tensor(values).shard(TWO, 0, splits=(5, 0))):  # fmt: skip
        assert repr(t.realize()) == expected(values, "float", TWO)


def test_lazy_and_constant_tensors_print_their_node() -> None:
    """As in the introduction; nothing is launched, and the tensor stays lazy."""
    GlobalCounters.reset()
    t = Tensor([1.0, 2.0], device="PYTHON") + 1
    node = t.uop
    assert re.fullmatch(
        r"<Tensor <UOp PYTHON \(2,\) float \(<Ops.ADD: \d+>, None\)> on PYTHON with grad None>", repr(t)
    )
    assert "Ops.EXPAND" in repr(Tensor.ones(3))
    assert "with parts" in repr(Tensor([1j]) * 2)
    assert (t.uop, GlobalCounters.kernel_count) == (node, 0)


def test_str_and_format_are_the_same_text() -> None:
    """print and an f-string without a spec show what repr does; a spec formats the number of one element."""
    t = Tensor([1.5], device="PYTHON").realize()
    assert str(t) == repr(t) == f"{t}" == "<Tensor [1.5] float (1,) on PYTHON with grad None>"
    assert f"{t:.3f} {t[0]:>8}" == "1.500      1.5"


def test_under_tinyjit_a_print_is_no_read() -> None:
    """A tensor prints as a lazy one in the calls that are recorded, and the function is replayed all the same."""
    seen: list[str] = []

    @TinyJit
    def step(x: Tensor) -> Tensor:
        seen.append(repr(x))
        return (x + 1).realize()

    for number in range(5):
        assert step(Tensor([float(number)], device="PYTHON").realize()).item() == number + 1
    assert len(seen) < 5
    assert "<UOp" in seen[-1]


def test_values_that_are_lost_or_cannot_be_read_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a lost or closed device nothing is read or opened; the NULL device has no values."""
    t = Tensor([1, 2], device="PYTHON:3").realize()
    monkeypatch.setattr(pool_of(Device["PYTHON:3"]), "lost", True)
    assert ", whose values are lost with their device, on PYTHON:3" in repr(t)
    assert ", whose memory cannot be read, on NULL" in repr(Tensor([1, 2], device="NULL").realize())
    t = Tensor([1, 2], device="PYTHON:4").realize()
    Device["PYTHON:4"]
    monkeypatch.setattr(pool_of(Device["PYTHON:4"]), "closed", True)
    assert "lost with their device" in repr(t)


def test_memory_that_the_host_does_not_see_is_copied_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 MB the chunks with printed elements are copied; less than 1 MiB as a whole."""
    values = np.arange(800_000, dtype=np.float32).reshape(800, 1000)
    t = Tensor(values, device="PYTHON").realize()
    small = t[:10].contiguous().realize()
    copied: list[int] = []
    copy_out = Buffer.copy_out
    monkeypatch.setattr(Buffer, "as_memoryview", lambda self: None)
    monkeypatch.setattr(Buffer, "copy_out", lambda self, view: copied.append(view.nbytes) or copy_out(self, view))
    assert repr(t) == expected(values, "float")
    assert repr(small) == expected(values[:10], "float")
    assert copied[-1] == 40_000
    assert sum(copied) < 500_000


def test_many_axes_are_cut_short() -> None:
    """6 ** 7 elements, which NumPy prints all, are shown by the edges of each axis; 20 axes are not shown."""
    t = Tensor.zeros(*[6] * 7, device="PYTHON").contiguous().realize()
    assert 1000 < len(repr(t)) < 20_000
    assert "of too many axes" in repr(Tensor([1.0], device="PYTHON").realize().reshape(*[1] * 20).expand(*[3] * 20))


def test_repr_never_raises() -> None:
    """Half of a tensor, symbolic shapes and files that are not read yet have a text."""
    assert repr(object.__new__(Tensor)).startswith("<Tensor that cannot be shown: AttributeError")
    from tinygraft import Variable

    assert "<UOp" in repr(Tensor([1.0, 2.0, 3.0], device="PYTHON").realize()[: Variable("n", 1, 3).bind(2)])
