"""What a tensor says of itself, reading it, realising it, giving it a new value, and moving it."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

from graph_numpy import evaluate, values
from tinygraft import GlobalCounters, Tensor, dtypes
from tinygraft.device.buffer import Buffer
from tinygraft.errors import DeviceError, DTypeError, ShapeError
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, live_nodes


def test_properties_are_those_of_the_seed_page() -> None:
    """Shapes, sizes, widths and reads are as the page of properties has them."""
    t = Tensor([[4, 5, 6], [7, 8, 9]])
    assert (t.shape, t.dtype, t.ndim, t.dim(), t.numel()) == ((2, 3), dtypes.int, 2, 2, 6)
    assert (t.size, t.size(), t.size(dim=1), t.size(0)) == (6, (2, 3), 3, 2)
    assert Tensor([5], dtype=dtypes.int16).element_size() == 2
    assert Tensor([8, 9], dtype=dtypes.float).nbytes() == 8
    assert Tensor([8, 9], dtype=dtypes.float32).is_floating_point()
    assert not Tensor([8]).is_floating_point()
    assert Tensor(42).item() == 42
    assert Tensor([1, 2, 3, 4]).tolist() == [1, 2, 3, 4]
    assert repr(Tensor([1, 2, 3, 4]).numpy()) == "array([1, 2, 3, 4], dtype=int32)"
    assert np.frombuffer(Tensor([1, 2, 3, 4]).data(), dtype=np.int32).tolist() == [1, 2, 3, 4]


def test_symbolic_shapes_have_sizes_too() -> None:
    """numel and nbytes of a symbolic shape are nodes, size and max_shape the greatest."""
    n = UOp.variable("n", 1, 8)
    t = Tensor.empty(n, 2)
    assert (t.numel().lo, t.numel().hi, t.nbytes().hi) == (2, 16, 64)
    assert (t.size, t.size(), t.max_shape) == (16, (n, 2), (8, 2))
    with pytest.raises(ShapeError, match="cannot read a tensor of symbolic shape"):
        t.numpy()


def test_the_buffer_of_a_realised_tensor_can_be_reached() -> None:
    """lazydata.base.realized is the Buffer, whose host memory holds the bytes, as the introduction shows."""
    b = (Tensor.ones(10, 10) + 2).contiguous().realize()
    buffer = b.lazydata.base.realized
    assert isinstance(buffer, Buffer)
    assert b.lazydata is b.uop
    assert repr(buffer) == f"<buf real:True device:{b.device} size:100 dtype:dtypes.float offset:0>"
    assert memoryview(buffer._buf)[:4].hex() == "00004040"
    assert (Tensor.ones(2) + 2).lazydata.base.realized is None


@pytest.mark.parametrize("dtype", dtypes.all, ids=str)
def test_every_dtype_can_be_read(dtype: Any) -> None:
    """tolist, item and numpy give Python numbers and the numpy dtype; bfloat16 comes as float32."""
    t = Tensor([[0, 1], [1, 0]], dtype=dtype)
    assert t.tolist() == [[0, 1], [1, 0]]
    assert t[0, 1].item() == 1
    assert type(t[0, 1].item()) is {"bool": bool, "float": float}.get(dtype.kind, int)
    names = {dtypes.bool: "bool", dtypes.char: "int8", dtypes.uchar: "uint8", dtypes.half: "float16"}
    names |= {dtypes.bfloat16: "float32", dtypes.float: "float32", dtypes.double: "float64"}
    assert t.numpy().dtype == np.dtype(names.get(dtype, t.numpy().dtype))
    assert np.asarray(t).tolist() == [[0, 1], [1, 0]]
    assert np.array(t, dtype=np.float64).dtype == np.float64
    if dtype.fmt not in (None, "e"):
        assert t.data().tolist() == [[0, 1], [1, 0]]
        assert t.data().shape == (2, 2)
    else:
        with pytest.raises(DTypeError, match=f"memoryview has no format for {dtype}; cast first"):
            t.data()


def test_tensors_without_axes_or_elements_can_be_read() -> None:
    """Rank 0 gives a number, an empty tensor empty lists of its shape."""
    assert Tensor(2.5).tolist() == 2.5
    assert Tensor(2.5).numpy().shape == ()
    assert Tensor(7).data().tolist() == 7
    assert Tensor.ones(2, 0, 3).tolist() == [[], []]
    assert Tensor.ones(0, 3).numpy().shape == (0, 3)
    assert Tensor([]).data().nbytes == 0


def test_a_numpy_array_is_a_copy() -> None:
    """Writing into what numpy() gave does not change the tensor."""
    t = Tensor([1, 2])
    t.numpy()[0] = 9
    assert t.tolist() == [1, 2]


def test_single_elements_are_numbers() -> None:
    """int, float, bool, index and iteration work where there is one answer, and raise where there is none."""
    assert (int(Tensor([3.7])), float(Tensor(2)), bool(Tensor([0.0]))) == (3, 2.0, False)
    assert [10, 20, 30][Tensor(1)] == 20
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert len(Tensor.ones(4, 2)) == 4
    with pytest.raises(ShapeError, match=r"the truth of a tensor of shape \(2,\) is not one value: use any\(\)"):
        bool(Tensor([1, 2]))
    with pytest.raises(ShapeError, match=r"item needs a tensor of one element, this one has shape \(2,\)"):
        Tensor([1, 2]).item()
    with pytest.raises(DTypeError, match=r"an index is an integer, got a tensor of dtypes.float"):
        [1][Tensor(0.0)]
    with pytest.raises(TypeError, match=r"a tensor without axes has no len\(\)"):
        len(Tensor(1))
    with pytest.raises(TypeError, match="a tensor without axes cannot be iterated over"):
        iter(Tensor(1))


def test_tensors_are_keys() -> None:
    """A tensor can be put into sets and dicts, by identity."""
    a, b = Tensor([1]), Tensor([1])
    assert {a: 1, b: 2}[a] == 1
    assert len({a, b}) == 2


def test_a_second_read_launches_nothing() -> None:
    """A read realises the tensor itself; only constants are computed each time."""
    t = Tensor([1.0, 2.0]) * 3
    t.numpy()
    GlobalCounters.reset()
    assert t.tolist() == [3.0, 6.0]
    assert t.detach().reshape(2, 1).tolist() == [[3.0], [6.0]]
    assert t.contiguous().realize().sum().item() == 9.0
    assert GlobalCounters.kernel_count == 1
    constant = Tensor.ones(2) + 2
    constant.numpy()
    assert constant.uop.base.op is not Ops.BUFFER


def test_realize_takes_several_tensors() -> None:
    """realize computes all that it is given and returns the first."""
    a, b = Tensor([1, 2]) + 1, Tensor([3]) * 2
    assert a.realize(b) is a
    assert a.uop.base.realized is not None and b.uop.base.realized is not None
    line = Tensor.arange(4).realize()
    assert line.uop.base.realized is not None


# A new value


def test_assign_keeps_memory_and_earlier_values() -> None:
    """assign writes into the same buffer; what was computed before keeps its value, and a view has the new one."""
    t = Tensor([1.0, 2.0]).realize()
    buffer = t.uop.base.realized
    before, view = t + 0, t.reshape(2, 1)
    assert t.assign(t + 10) is t
    after = t * 2
    assert t.realize().tolist() == [11.0, 12.0]
    assert t.uop.base.realized is buffer
    assert (before.tolist(), view.tolist(), after.tolist()) == ([1.0, 2.0], [[11.0], [12.0]], [22.0, 24.0])


def test_a_chain_of_assignments_happens_once() -> None:
    """However many values a tensor had, each expression sees the one of its time, whichever is realised first."""
    for first in range(4):
        t = Tensor([1]).realize()
        kept = []
        for factor in (1, 10, 100):
            t.assign(t + 1)
            kept.append(t * factor)
        kept.append(t)
        kept[first].realize()
        assert [k.item() for k in kept] == [2, 30, 400, 4]


def test_assign_converts_data_and_checks_tensors() -> None:
    """Numbers and lists become tensors of this dtype; a tensor has to fit in shape, dtype and device."""
    t = Tensor([[1, 2], [3, 4]])
    assert t.assign(7).tolist() == [[7, 7], [7, 7]]
    assert t.assign([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    same = t.uop
    assert t.assign(t).uop is same
    both = r"  made at .*test_realizing.py:\d+      assigned to the tensor made at .*test_realizing.py:\d+"
    with pytest.raises(ShapeError, match=rf"cannot assign shape \(3,\) to a tensor of shape \(2, 2\)\n{both}"):
        t.assign(Tensor([1, 2, 3]))
    with pytest.raises(DTypeError, match=rf"cannot assign dtypes.float to a tensor of dtypes.int\n{both}\n"):
        t.assign(Tensor.ones(2, 2))
    with pytest.raises(DeviceError, match=rf"on NULL to one on PYTHON\n{both}\n  hint: move it first, as in t.assign"):
        Tensor([1], device="PYTHON").assign(Tensor([1], device="NULL"))


def test_assign_to_a_view_writes_its_base_and_to_an_expression_rebinds_it() -> None:
    """A view is memory of its base; what was computed from it is not."""
    t = Tensor([1, 2, 3]).realize()
    part = t[:2]
    part.assign(Tensor([8, 9]))
    assert (part.tolist(), t.tolist()) == ([8, 9], [8, 9, 3])
    doubled = t * 2
    doubled.assign(Tensor([0, 0, 0]))
    assert (doubled.tolist(), t.tolist()) == ([0, 0, 0], [8, 9, 3])
    alias = t.detach()
    alias.assign(Tensor([5, 5, 5]))
    assert (alias.tolist(), t.tolist()) == ([5, 5, 5], [5, 5, 5])


def test_replace_needs_the_shape_only() -> None:
    """replace takes over another tensor's node, of any dtype."""
    t = Tensor([1, 2])
    assert t.replace(Tensor([1.5, 2.5])) is t
    assert t.tolist() == [1.5, 2.5]
    with pytest.raises(ShapeError, match=r"cannot replace a tensor of shape \(2,\) by one of shape \(3,\)"):
        t.replace(Tensor([1, 2, 3]))


def test_many_assignments_keep_memory_and_nodes_flat() -> None:
    """Two hundred steps of assign and realize leave as many live nodes as twenty."""
    t = Tensor([1.0, 2.0]).realize()
    counts = []
    for step in range(200):
        t.assign(t * 0.5 + 1).realize()
        if step in (20, 199):
            gc.collect()
            counts.append((live_nodes(), GlobalCounters.mem_used))
    assert counts[0] == counts[1]


# Copies and devices


def test_contiguous_clone_and_detach() -> None:
    """contiguous computes what is not in order, clone always copies, detach stops gradients."""
    t = Tensor([[1, 2], [3, 4]]).realize()
    assert t.contiguous().uop is t.uop
    turned = t.T.contiguous().realize()
    assert turned.uop.base.realized is not t.uop.base.realized
    assert turned.tolist() == [[1, 3], [2, 4]]
    twin = t.clone().realize()
    assert twin.uop.base.realized is not t.uop.base.realized
    assert twin.tolist() == t.tolist()
    free = Tensor([1.0], requires_grad=True).detach()
    assert (free.requires_grad, free.uop.op) == (False, Ops.DETACH)
    np.testing.assert_array_equal(evaluate(t.contiguous_backward().uop), [[1, 2], [3, 4]])
    assert Tensor([1.0]).requires_grad_().requires_grad is True
    assert Tensor([1.0]).requires_grad_(False).requires_grad is False


def test_to_copies_between_devices() -> None:
    """to gives the values on another device, and the tensor itself where it already is there."""
    t = Tensor([1, 2, 3], device="PYTHON")
    assert t.to("python") is t
    for name in ("PYTHON:1", None):
        moved = t.to(name)
        assert moved.tolist() == [1, 2, 3]
        assert (moved + 1).tolist() == [2, 3, 4]
        assert values(moved.to("PYTHON:1") * 2).tolist() == [2, 4, 6]
    assert t.to_("PYTHON:1") is t
    assert (t.device, t.tolist()) == ("PYTHON:1", [1, 2, 3])


def test_copy_of_a_tensor_is_a_tensor() -> None:
    """copy, deepcopy and pickle give tensors of their own, with the flag and the gradient."""
    for twin_of in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        t = Tensor([1.0, 2.0], requires_grad=True)
        t.grad = Tensor([5.0, 6.0])
        twin = twin_of(t)
        t.assign(Tensor([3.0, 4.0])).realize()
        assert (twin.tolist(), t.tolist()) == ([1.0, 2.0], [3.0, 4.0])
        assert (twin.requires_grad, twin.grad.tolist(), twin.dtype) == (True, [5.0, 6.0], dtypes.float32)


def test_schedule_lists_the_calls_and_runs_none() -> None:
    """schedule gives the kernels in order; what is realised or constant needs none."""
    a = (Tensor([1.0, 2.0]) + 1).contiguous()
    b = a.sum()
    GlobalCounters.reset()
    calls = b.schedule(a)
    assert [type(call).__name__ for call in calls] == ["KernelCall"] * len(calls)
    assert 1 <= len(calls) <= 2
    assert GlobalCounters.kernel_count == 0
    assert a.realize(b).schedule(b) == []
    assert Tensor.ones(3).schedule() == []
    n = UOp.variable("n", 1, 4).bind(2)
    calls, bound = (Tensor([1, 2, 3, 4])[:n] + 1).sum().schedule_with_vars()
    assert (len(calls), bound) == (1, {"n": 2})


def test_a_number_is_formatted_as_python_does() -> None:
    """f"{loss:.3f}" is the number; without a spec it is what print shows; more numbers than one raise."""
    assert f"{Tensor(2.0) / 3:.3f} {Tensor([7]):04d} {Tensor([[0.5]]):%}" == "0.667 0007 50.000000%"
    t = Tensor([1.0, 2.0])
    assert f"{t}" == str(t)
    with pytest.raises(ShapeError) as caught:
        f"{t:.3f}"
    assert str(caught.value).splitlines()[0] == "a tensor of shape (2,) is not one number to be written as '.3f'"
    assert str(caught.value).splitlines()[2] == "  hint: item() of one element, or tolist()"
