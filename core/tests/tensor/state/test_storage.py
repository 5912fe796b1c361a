"""Views are memory: a write to a tensor shows in its views, one through a view in its base, and nowhere else."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable, nn
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.state.storage import VIEWS

TWO = ("PYTHON", "PYTHON:1")


def numbers(*shape: int, realized: bool = True) -> Tensor:
    """0, 1, 2, ... in a shape: memory, or an expression."""
    count = int(np.prod(shape))
    t = Tensor(np.arange(count, dtype=np.float32).reshape(shape))
    return t.realize() if realized else t * 1.0 + 0.0


def kernels(*tensors: Tensor) -> int:
    """How many kernels it takes to realise tensors."""
    GlobalCounters.reset()
    Tensor.realize(*tensors)
    return GlobalCounters.kernel_count


# What gives views

BY_CALL: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda t: t.reshape(4, 3), "view": lambda t: t.view(-1), "view_as": lambda t: t.view_as(t),
    "reshape_as": lambda t: t.reshape_as(t.T), "flatten": lambda t: t.flatten(), "ravel": lambda t: t.ravel(),
    "unflatten": lambda t: t.unflatten(1, (2, 2)), "squeeze": lambda t: t.squeeze(),
    "unsqueeze": lambda t: t.unsqueeze(dim=0), "permute": lambda t: t.permute(1, 0),
    "transpose": lambda t: t.transpose(0, 1), "t": lambda t: t.t(), "T": lambda t: t.T, "mT": lambda t: t.mT,
    "swapaxes": lambda t: t.swapaxes(0, 1),
    "movedim": lambda t: t.movedim(0, 1), "__getitem__": lambda t: t[1:, ::2],
    "__iter__": lambda t: next(iter(t)), "shrink": lambda t: t.shrink(((0, 2), (1, 3))),
    "shrink_to": lambda t: t.shrink_to(2, 2), "narrow": lambda t: t.narrow(1, 1, 2), "select": lambda t: t.select(1, 2),
    "split": lambda t: t.split(2, dim=1)[1], "split_with_sizes": lambda t: t.split_with_sizes([1, 2])[1],
    "tensor_split": lambda t: t.tensor_split(2, 1)[0], "chunk": lambda t: t.chunk(2, axis=1)[1],
    "hsplit": lambda t: t.hsplit(2)[0], "vsplit": lambda t: t.vsplit(3)[1],
    "dsplit": lambda t: t.reshape(1, 3, 4).dsplit(2)[1], "unbind": lambda t: t.unbind(1)[3],
    "flip": lambda t: t.flip(0), "fliplr": lambda t: t.fliplr(), "flipud": lambda t: t.flipud(),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(1, 2, 2), "expand": lambda t: t.expand(3, 4), "expand_as": lambda t: t.expand_as(t),
    "broadcast_to": lambda t: t.broadcast_to(1, 3, 4), "detach": lambda t: t.detach(),
    "bitcast": lambda t: t.bitcast("int32"), "real": lambda t: t.real, "imag": lambda t: (t + t * 1j).imag,
}  # fmt: skip


def test_the_table_is_closed() -> None:
    """Each method of the table has a call here."""
    assert set(BY_CALL) == VIEWS


def test_the_page_names_all_of_it() -> None:
    """docs/views.md has each method of the table; an index and iteration are there by their own signs."""
    page = (Path(__file__).parents[4] / "docs" / "views.md").read_text(encoding="utf-8")
    table = page.split("These give views", 1)[1].split("Everything else", 1)[0]
    named = set(re.findall(r"`(\w+)`", table)) - {"None", "to"}
    assert named == VIEWS - {"__getitem__", "__iter__"}
    assert "`t[...]`" in table and "iteration" in table


@pytest.mark.parametrize("name", sorted(set(BY_CALL) - {"imag"}))
@pytest.mark.parametrize("realized", [True, False])
def test_a_view_is_its_base_s_memory(name: str, realized: bool) -> None:
    """Written through, the base and earlier views change in just these places; written to, the view follows."""
    t = numbers(3, 4, realized=realized)
    whole, places = t.reshape(-1), BY_CALL[name](numbers(3, 4).cast("int32").contiguous()).numpy().reshape(-1)
    if name == "bitcast":
        places = np.arange(12)
    view = BY_CALL[name](t)
    view.assign(view._const(100, view.dtype).bitcast(view.dtype))
    expected = np.arange(12, dtype=np.float32)
    expected[places] = np.int32(100).view(np.float32) if name == "bitcast" else 100
    assert t.numpy().reshape(-1).tolist() == whole.tolist() == expected.tolist()
    t.assign(t * 0 + 5)
    assert set(view.bitcast("float32").numpy().reshape(-1).tolist()) == {5.0}


VALUES: dict[str, Callable[[Any], Any]] = {
    "gather": lambda t: t[[0, 1, 2]], "cast": lambda t: t.cast("float32"), "pad": lambda t: t.pad(((0, 0), (0, 0))),
    "repeat": lambda t: t.repeat(1, 1), "roll": lambda t: t.roll(0), "contiguous": lambda t: t.contiguous(),
    "clone": lambda t: t.clone(), "cat": lambda t: Tensor.cat(t), "stack": lambda t: Tensor.stack(t)[0],
    "Tensor": Tensor, "deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "to": lambda t: t.to("PYTHON:1"), "shard": lambda t: t.shard(TWO, 0), "positive": lambda t: +t,
    "dropout": lambda t: t.dropout(), "rot90": lambda t: t.rot90(2), "mask": lambda t: t[t > -1],
    "sum": lambda t: t.sum(()), "rearrange": lambda t: t.rearrange("a b -> b a"),
    "as_strided": lambda t: t.as_strided((3, 4), (4, 1)),
    "interpolate": lambda t: t.clip(-100), "array API": lambda t: t.__array_namespace__().permute_dims(t, (1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(VALUES))
@pytest.mark.parametrize("realized", [True, False])
def test_every_other_result_is_a_value(name: str, realized: bool) -> None:
    """It can be written to without touching anything else, and a write to what it was made of does not show in it."""
    t = numbers(3, 4, realized=realized)
    view = t.reshape(12)
    value = VALUES[name](t)
    before = value.tolist()
    value.assign(value._const(9, value.dtype))
    assert view.tolist() == t.reshape(12).tolist() == list(range(12))
    other = VALUES[name](t)
    t += 1
    assert other.tolist() == before


def test_to_the_same_device_is_the_tensor_itself() -> None:
    """And a complex one too."""
    for t in (numbers(2), Tensor([1j])):
        assert t.to(t.device) is t


def test_movements_inside_the_library_are_no_views() -> None:
    """Layers and functions of this package move what they are given, and keep no record of that."""
    t = numbers(1, 2, 4, 4)
    assert nn.Conv2d(2, 3, 3)(t).shape == (1, 3, 2, 2)
    assert t._storage is None
    assert t.repeat(1, 1, 1, 2)._storage is None


# Writes


def test_the_lines_of_the_issue() -> None:
    """What did nothing, without a word."""
    t = Tensor([[1, 2], [3, 4]]).realize()
    t[0][1] = 5
    t[1:2].assign(Tensor([[7, 8]]))
    t.T[1, 0] = 50
    assert t.tolist() == [[1, 50], [7, 8]]
    cache = numbers(4, 2)
    cache.shrink(((1, 2), None)).assign(Tensor([[7.0, 8.0]])).realize()
    v = cache[:2]
    v += 1
    assert cache.tolist() == [[1.0, 2.0], [8.0, 9.0], [4.0, 5.0], [6.0, 7.0]]
    for row in cache:
        row *= 0
    assert cache.tolist() == [[0.0, 0.0]] * 4


def test_an_update_of_a_part_happens_once() -> None:
    """t[0] += 1 reads the part, writes to it and stores it where it is."""
    t = numbers(3)
    t[0] += 1
    assert kernels(t) == 1
    assert t.tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("realized", [True, False])
def test_parts_of_parts_and_two_views_in_turn(realized: bool) -> None:
    """A part of a part of a part, and two views of one base written alternately, read in between or not."""
    t = numbers(4, 6, realized=realized)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    a, b, c = t[1:][:, ::2].T[1], t.reshape(-1)[3:20:4], t.flip(1)[2]
    p, q, r = x[1:][:, ::2].T[1], x.reshape(-1)[3:20:4], x[:, ::-1][2]
    for i in range(6):
        for view, model in ((a, p), (b, q), (c, r)):
            view.assign(view * 2 + i)
            model[...] = model * 2 + i
        if i % 2:
            assert b.tolist() == q.tolist()
    assert t.tolist() == x.tolist()
    assert (a.tolist(), b.tolist(), c.tolist()) == (p.tolist(), q.tolist(), r.tolist())


def test_a_write_that_reads_what_it_overlaps_means_the_old_values() -> None:
    """x[1:] = x[:-1], through views as well."""
    t = numbers(5)
    t[1:].assign(t[:-1])
    assert t.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0]
    t.flip(0).assign(t)
    assert t.tolist() == [3.0, 2.0, 1.0, 0.0, 0.0]
    left, right = t[:4].chunk(2)
    old = left.clone()
    left.assign(right)
    right.assign(old)
    assert t.tolist() == [1.0, 0.0, 3.0, 2.0, 0.0]


def test_what_was_computed_from_a_view_keeps_its_value() -> None:
    """It is a value like any other."""
    t = numbers(4)
    v = t[:2]
    double = v * 2
    v += 10
    assert (double.tolist(), v.tolist()) == ([0.0, 2.0], [10.0, 11.0])


def test_a_write_by_index_tensors_and_masks_goes_through() -> None:
    """setitem of a view with a list, a tensor or a mask."""
    t = numbers(2, 4)
    v = t[1]
    v[[3, 0]] = Tensor([30.0, 0.5])
    v[Tensor([1])] = 11
    t.T[2, Tensor([0, 1])] = 77
    v[v > 70] = -1
    assert t.tolist() == [[0.0, 1.0, 77.0, 3.0], [0.5, 11.0, -1.0, 30.0]]


def test_the_writer_may_be_deleted() -> None:
    """A pending write through a tensor that is gone is not lost."""
    for part in (slice(None), slice(1, 3)):
        t = numbers(4)
        view = t[1:]
        t[part].assign(t[part] * 10)
        del t
        gc.collect()
        assert view.tolist() == [10.0, 20.0, 30.0 if part == slice(None) else 3.0]


def test_memory_of_others_is_written_through_a_view_whose_base_is_gone() -> None:
    """A tensor over somebody's array, of which only a part is held."""
    theirs = array("f", [1, 2, 3, 4])
    part = Tensor.from_blob(theirs.buffer_info()[0], (2, 2))[1]
    part.assign(Tensor([8.0, 9.0]))
    part.realize()
    assert theirs.tolist() == [1.0, 2.0, 8.0, 9.0]


def test_elements_in_common_are_not_written() -> None:
    """Of an expanded tensor, or overlapping windows; but a part of one that has each element once is."""
    t = numbers(4)
    text = r"cannot write to a view of shape \(2, 4\) that has elements in common: it was made by expand or unfold"
    with pytest.raises(ShapeError, match=text):
        t.expand(2, 4).assign(t.expand(2, 4) * 2)
    with pytest.raises(ShapeError, match=r"a tensor of shape \(4,\)\n  made at .*test_storage.py:\d+\n  hint: write"):
        t.unfold(0, 3, 1)[0:2, 0:2] = 0
    with pytest.raises(ShapeError, match="elements in common"):
        t.reshape(4, 1).expand(4, 2).T.reshape(8)[2:7].__iadd__(1)
    with pytest.raises(ShapeError, match="elements in common"):  # though it has that value
        t.expand(2, 4).assign(t)
    t.expand(2, 4)[1].assign(t * 2)
    t.unfold(0, 2, 2)[1, 0] = 50
    t.unfold(0, 3, 1)[1, 2:] = 60
    assert t.tolist() == [0.0, 2.0, 50.0, 60.0]


def test_a_symbolic_part_of_what_repeats_is_written_where_it_does_not() -> None:
    """With the values that the variables are bound to, elements in common are found and others written."""
    row = Variable("row", 0, 2)
    for k in range(3):
        t = numbers(3, 1, 4)
        t.expand(3, 2, 4)[row.bind(k) : row.bind(k) + 1, 0] = 50.0
        assert t.tolist()[k] == [[50.0] * 4]
        repeated = t.reshape(3, 4)[row.bind(k) : row.bind(k) + 1].expand(2, 4)
        repeated[1].assign(Tensor([7.0] * 4))
        assert t.tolist()[k] == [[7.0] * 4]
        windows = t.reshape(12).unfold(0, 3, 1)
        for view in (repeated, windows[row.bind(k) : row.bind(k) + 2]):
            with pytest.raises(ShapeError, match="elements in common"):
                view += 1
        assert t.tolist()[k] == [[7.0] * 4]


def test_assignment_operators_keep_shape_and_dtype() -> None:
    """Their error names the form that does not."""
    t = Tensor([1, 2])
    with pytest.raises(
        DTypeError, match=r"^a /= b keeps the dtype of a, dtypes.int, and the result has dtypes.float\n"
    ):
        t /= 2
    with pytest.raises(ShapeError, match=r"result has shape \(2, 2\)\n  made at .*\n  hint: .* as in a = a \+ b$"):
        t += Tensor([[1, 2], [3, 4]])
    assert t.tolist() == [1, 2]


def test_assign_broadcasts() -> None:
    """As t[...] = x does, in whole and in part."""
    assert Tensor.zeros(2, 3).assign(Tensor.ones(3)).tolist() == [[1.0] * 3] * 2
    t = numbers(2, 3)
    t[:, 1:].assign(Tensor([[7.0], [8.0]]))
    assert t.tolist() == [[0.0, 7.0, 7.0], [3.0, 8.0, 8.0]]
    with pytest.raises(ShapeError, match=r"^cannot assign shape \(2,\) to a tensor of shape \(2, 3\)\n"):
        t.assign(Tensor([1.0, 2.0]))


def test_nothing_is_written_to_no_elements() -> None:
    """An empty part of memory and of an expression."""
    for t in (numbers(3), numbers(3, realized=False)):
        t[1:1].assign(t[:0])
        t[3:] = 5
        assert t.tolist() == [0.0, 1.0, 2.0]


# Reads


def test_the_second_read_launches_nothing() -> None:
    """A view keeps its elements until somebody writes."""
    t = numbers(3, 4)
    v = t.T
    v.numpy()
    GlobalCounters.reset()
    v.numpy()
    assert GlobalCounters.kernel_count == 0
    t[0] = 9
    assert v.tolist()[0] == [9.0, 4.0, 8.0]
    GlobalCounters.reset()
    v.numpy()
    assert GlobalCounters.kernel_count == 0


def test_realising_a_view_runs_the_pending_writes() -> None:
    """Of its storage, and does no more while others read that too: a cache is filled by one kernel."""
    cache = numbers(8, 4)
    memory = cache.uop.base.realized
    row = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    part = cache[2].assign(row)
    assert kernels(part) == 1
    assert cache.uop.base.realized is memory
    assert kernels(cache) == 0
    assert cache[2].tolist() == part.tolist() == row.tolist()


def test_a_view_lets_go_of_the_rest() -> None:
    """Realised, where nobody else is over that memory."""
    t = Tensor(np.zeros(1 << 20, np.float32)).realize()
    part = t[:4]
    del t
    before = GlobalCounters.mem_used
    part.realize()
    gc.collect()
    assert GlobalCounters.mem_used <= before - (4 << 20) + 64
    part.assign(part + 1)
    assert part.tolist() == [1.0] * 4


def test_a_replaced_tensor_is_no_view_any_more() -> None:
    """replace and to_ leave the record to the others."""
    t = numbers(3)
    v = t[:2]
    v.replace(Tensor([8.0, 9.0]))
    v += 1
    assert (t.tolist(), v.tolist()) == ([0.0, 1.0, 2.0], [9.0, 10.0])
    u, w = t[:2], t[1:]
    u.to_("PYTHON:1")
    u += 5
    w += 1
    assert (t.tolist(), u.tolist(), w.tolist()) == ([0.0, 2.0, 3.0], [5.0, 6.0], [2.0, 3.0])


def test_two_tensors_over_one_node_are_no_aliases() -> None:
    """Gradients of one value, contiguous() of memory, Tensor(t)."""
    a, b = (Tensor([1.0, 2.0], requires_grad=True) for _ in "ab")
    (a + b).sum().backward()
    assert a.grad is not None and b.grad is not None
    a.grad[0] = 7
    assert b.grad.tolist() == [1.0, 1.0]
    a.grad.assign(a.grad * 2)
    assert (a.grad.tolist(), b.grad.tolist()) == ([14.0, 2.0], [1.0, 1.0])


# Everywhere


def test_symbolic_parts_written_under_several_bindings() -> None:
    """Each write is done before one under another binding, or a read."""
    i = Variable("i", 0, 5)
    t = Tensor.zeros(6).contiguous().realize()
    for k in range(4):
        t[i.bind(k) : i.bind(k) + 1].assign(Tensor([k + 10.0]))
    t[i.bind(5)] = 5
    assert t[i.bind(2) : i.bind(2) + 2].sum().item() == 25.0
    assert t.tolist() == [10.0, 11.0, 12.0, 13.0, 0.0, 5.0]


def test_shards() -> None:
    """Of tensors that are cut, across the cut and along it; and of a tensor before it was put on two devices."""
    t = Tensor([[1, 2], [3, 4]]).shard(TWO, 0).realize()
    t.T[1] = 9
    t[0].assign(Tensor([5, 6]).shard(TWO))
    assert t.tolist() == [[5, 6], [3, 9]]
    source = numbers(4)
    cut = source.shard(TWO, 0)
    cut[1:3] += 10
    source[0] = 7
    assert (cut.tolist(), source.tolist()) == ([0.0, 11.0, 12.0, 3.0], [7.0, 1.0, 2.0, 3.0])


def test_a_part_of_what_was_on_several_devices_is_written() -> None:
    """Brought to one of them, it is a value, also where the memory that is there already has it."""
    for axis, device in ((None, TWO[0]), (None, TWO[1]), (0, TWO[0])):
        for realized in (False, True):
            source = numbers(4).shard(TWO, axis).realize()
            if not realized:
                source = source.assign(source + 1)
            value = source.to(device)
            part = value[1:3]
            part += 10
            value[3] = 50
            start = 0.0 if realized else 1.0
            assert value.tolist() == [start, start + 11, start + 12, 50.0]
            assert source.tolist() == [start, start + 1, start + 2, start + 3]


def test_one_element_of_several_devices_is_read_after_a_write() -> None:
    """It is read from memory each time, on the device that has it, and leaves no copy behind."""
    for axis in (None, 0):
        t = numbers(5, 2).shard(TWO, axis).realize()
        part = t[4, 1:]
        assert (part.tolist(), t[0, 1].item()) == ([9.0], 1.0)
        t.assign(t + 10)
        assert (part.tolist(), t[0, 1].item(), t[3, 0].item()) == ([19.0], 11.0, 16.0)


def test_complex_parts() -> None:
    """real and imag are memory of the tensor, and a view of it is both."""
    z = Tensor([1 + 2j, 3.0]).realize()
    z.real[0] = 9
    z.imag.assign(Tensor([5.0, 6.0]))
    z[1:].assign(2j)
    row = z.reshape(2, 1)[0]
    row += 1
    assert z.tolist() == [10 + 5j, 2j]


def test_bits() -> None:
    """A bitcast of equal width is the same memory, in parts as well; of another width it is a value."""
    t = Tensor([1.0, -2.0]).realize()
    t.bitcast("int32")[1:] &= 0x7FFFFFFF
    t.bitcast("uint8").assign(Tensor([0] * 8, dtype="uint8"))
    assert t.tolist() == [1.0, 2.0]


def test_copies_and_pickles_of_views_are_values() -> None:
    """They have the view's elements and nobody's memory."""
    t = numbers(4)
    for made in (pickle.loads(pickle.dumps(t[1:3])), copy.deepcopy(t[1:3]), copy.copy(t[1:3])):
        made += 5
        assert (made.tolist(), t.tolist()) == ([6.0, 7.0], [0.0, 1.0, 2.0, 3.0])


def test_threads_write_parts_of_one_tensor() -> None:
    """Each its own."""
    t = numbers(8, 16)
    failures: list[BaseException] = []

    def work(row: int) -> None:
        try:
            part = t[row]
            for _ in range(10):
                part += 1
                part.realize()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert t.tolist() == (np.arange(128, dtype=np.float32).reshape(8, 16) + 10).tolist()


def test_threads_make_views_while_others_write_and_realise() -> None:
    """A view is of what the base is when it is made, and a value that is assigned is not computed twice."""
    for realized in (True, False):
        t = numbers(4, 16) * 0 if realized else Tensor.zeros(4, 16).contiguous()
        failures: list[BaseException] = []

        def work(row: int, t: Tensor = t, failures: list[BaseException] = failures) -> None:
            try:
                for i in range(12):
                    part = t[row]
                    part += 1
                    t.T[row, row].assign(t[row, row] * 1)
                    t[row, 1:3] = t[row, 1:3] * 1
                    if i % 3 == 0:
                        part.numpy()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(row,)) for row in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert t.tolist() == [[12.0] * 16] * 4


def test_parts_of_a_file_are_values(tmp_path: Any) -> None:
    """Until it is read; what is written never goes to the file."""
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(8)))
    t = Tensor(path)
    part = t[2:4]
    part += 1
    t.reshape(2, 4)[0, 0] = 99
    assert (part.tolist(), t.tolist()) == ([3, 4], [99, 1, 2, 3, 4, 5, 6, 7])
    assert path.read_bytes() == bytes(range(8))


def test_moving_averages_and_tied_weights() -> None:
    """An average is a tensor of its own; a weight that two layers have is one; a view of it is written with it."""
    layer = nn.Linear(2, 2)
    average = layer.weight.detach().clone()
    tied = layer.weight.T
    layer.weight.assign(layer.weight * 0 + 2)
    average.assign(average * 0 + layer.weight.detach() * 0.5)
    assert (average.tolist(), tied.tolist()) == ([[1.0, 1.0]] * 2, [[2.0, 2.0]] * 2)
    with Tensor.train():
        optimizer = nn.optim.SGD([layer.weight], lr=1.0)
        layer.weight.sum().backward()
        optimizer.step()
    assert tied.tolist() == [[1.0, 1.0]] * 2


# Gradients


def leaf(*values: float) -> Tensor:
    """A tensor with requires_grad."""
    return Tensor(list(values), requires_grad=True)


def test_steps_by_hand() -> None:
    """w -= lr * w.grad and its parts leave w a leaf, with and without no_grad."""
    for quiet in (False, True):
        w = leaf(1.0, 2.0, 3.0)
        for _ in range(2):
            w.grad = None
            (w * w).sum().backward()
            assert w.grad is not None
            if quiet:
                with Tensor.no_grad():
                    w -= 0.25 * w.grad
                    w[0] = 4
            else:
                w -= 0.25 * w.grad
                w[:1].assign(Tensor([4.0]))
        assert (w.tolist(), w.requires_grad) == ([4.0, 0.5, 0.75], True)


def test_a_computed_base_keeps_its_tape_through_a_view() -> None:
    """Written before, between and after uses, and read in between."""
    for read in (False, True):
        w = leaf(1.0, 2.0, 3.0)
        h = w * 2
        v = h[:2]
        first = (h * h).sum()
        v *= 3
        if read:
            v.numpy()
        h[2:].assign(w[:1] * 5)
        (first + (h * h).sum()).backward()
        assert w.grad is not None
        assert w.grad.tolist() == [8 * 1 + 72 * 1 + 50, 8 * 2 + 72 * 2, 8 * 3]


@pytest.mark.parametrize("read", [False, True])
def test_a_computed_tensor_is_no_leaf_once_all_of_it_is_a_constant(read: bool) -> None:
    """Assigned one, or written through detach(): what is assigned to it after that is on the tape."""
    for detached in (False, True):
        w = leaf(2.0, 3.0)
        t = w * w
        if detached:
            constant = t.detach()
            constant *= 0.5
        else:
            t.assign(Tensor([5.0, 6.0]))
        if read:
            t.numpy()
        t.assign(w * 3)
        (t * t.reshape(2)).sum().backward()
        assert w.grad is not None
        assert (w.grad.tolist(), t.grad) == ([36.0, 54.0], None)


def test_gradients_around_written_windows_and_repetitions() -> None:
    """Zero for what was replaced, in windows without elements in common, and in one of several repetitions."""
    w = leaf(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    writes: list[tuple[Callable[[Tensor], Tensor], list[float]]] = [
        (lambda t: t.unfold(0, 2, 3), [0.0, 0.0, 6.0, 0.0, 0.0, 12.0]),
        (lambda t: t.unfold(0, 3, 1)[1:2], [2.0, 0.0, 0.0, 0.0, 10.0, 12.0]),
        (lambda t: t.reshape(1, 6).expand(2, 6)[1, :4], [0.0, 0.0, 0.0, 0.0, 10.0, 12.0]),
    ]
    for view, expected in writes:
        w.grad = None
        t = w.square()
        part = view(t)
        part.assign(Tensor.ones(*part.shape))
        t.sum().backward()
        assert w.grad is not None
        assert w.grad.tolist() == expected
        w.grad, t = None, w.square()
        part = view(t)
        part *= 2
        t.sum().backward()
        assert [new - old for new, old in zip(w.grad.tolist(), expected, strict=True)] == [
            4.0 * (i + 1) * (old == 0.0) for i, old in enumerate(expected)
        ]


@pytest.mark.parametrize("read", [False, True])
def test_a_leaf_written_by_another_shape_keeps_all_its_versions(read: bool) -> None:
    """A loss of what was written as a whole through a view, and a step before its backward."""
    w = leaf(1.0, 2.0, 3.0, 4.0)
    square, flipped = w.reshape(2, 2), w.flip(0)
    square.assign(Tensor([[5.0, 6.0], [7.0, 8.0]]))
    loss = flipped.sum()
    square.sum().backward()
    w.assign(w * 0.5)
    if read:
        flipped.realize()
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0] * 4


def test_no_grad_is_a_block_and_a_decorator() -> None:
    """Its results are constants, in this thread and in this block only."""
    w = leaf(2.0)

    @Tensor.no_grad()
    def twice(x: Tensor) -> Tensor:
        return x * 2

    y = twice(w)
    (y * w).sum().backward()
    assert w.grad is not None
    assert (y.requires_grad, (w * 2).requires_grad, w.grad.tolist()) == (False, True, [4.0])
    with Tensor.no_grad():
        made = Tensor([1.0], requires_grad=True)
        view = w[:1]
    assert (made.requires_grad, view.requires_grad) == (True, False)
    view += 1
    assert w.tolist() == [3.0]


@pytest.mark.parametrize("write", [
    lambda t: t.detach()[0:1].assign(t[0:1]), lambda t: t.detach().__setitem__(slice(0, 1), t.detach()[0:1]),
    lambda t: (part := t.detach().chunk(2, 0)[0]).assign(part), lambda t: t[0:1].assign(t.detach()[0:1]),
])  # fmt: skip
def test_its_own_value_written_through_detach_has_no_gradient(write: Any) -> None:
    """As any other value that is written there; one that is written into itself is left as it is."""
    x = Tensor([1.0, 2.0], requires_grad=True).realize()
    t = x * 3
    write(t)
    t.sum().backward()
    assert (x.grad.tolist(), t.tolist()) == ([0.0, 3.0], [3.0, 6.0])
    x.grad, t = None, x * 3
    t[0:1] = t[0:1]
    t.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("devices", [None, ("CPU", "CPU:1")])
def test_a_read_of_a_part_written_through_detach_keeps_the_rest_for_backward(devices: Any, read: bool) -> None:
    """The old values that the other elements were multiplied by: the read computes all, and writes over these."""
    x, t = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    x, t = (each if devices is None else each.shard(devices, None) for each in (x, t))
    Tensor.realize(x, t)
    view = t[0]
    t *= x
    part = view.detach()
    part += view
    if read:
        assert part.item() == 8.0
    t.sum().backward()
    assert (x.grad.tolist(), t.tolist()) == ([0.0, 5.0, 6.0], [8.0, 10.0, 18.0])


@pytest.mark.parametrize("read", [False, True])
def test_the_gradient_by_what_was_written_through_detach_counts_once(read: bool) -> None:
    """By the newest value, of computed tensors and of memory; a leaf that is written is the old value too."""
    for make in (lambda x: x * 2, lambda x: Tensor([2.0, 4.0, 6.0]).realize()):
        y = make(Tensor([1.0, 2.0, 3.0], requires_grad=True))
        y.detach()[0] = 5
        if read:
            y.numpy()
        assert (y * y).sum().gradient(y)[0].tolist() == [10.0, 8.0, 12.0]
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    old = w * w
    w.assign(Tensor([5.0, 6.0]))
    if read:
        w.numpy()
    assert (old.sum() + w.sum() * 3).gradient(w)[0].tolist() == [5.0, 7.0]


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("make", ["data", "ones", "number", "rand", "flagged"])
@pytest.mark.parametrize("read", [False, True])
def test_a_shard_of_a_leaf_that_is_written_before_it_is_memory(read: bool, make: str, axis: int | None) -> None:
    """What was computed before the write has its gradient, also once the leaf that it was copied from is memory."""
    made = {
        "data": lambda: Tensor([1.0, 2.0], requires_grad=True),
        "ones": lambda: Tensor.ones(2, requires_grad=True),
        "number": lambda: Tensor(1.0, requires_grad=True),
        "rand": lambda: Tensor.rand(2, requires_grad=True),
        "flagged": lambda: (Tensor.ones(2) * 3).requires_grad_(),
    }[make]()
    if axis is not None and not made.shape:
        made = made.reshape(1).expand(2)
    t = made.shard(("CPU", "CPU:1"), axis)
    del made
    before = t * 2
    t -= 1
    if read:
        t.numpy()
    before.sum().backward()
    assert t.grad is not None
    np.testing.assert_array_equal(t.grad.numpy(), np.full(t.shape, 2.0))


@pytest.mark.parametrize("view", ["reshaped", "a slice", "a symbolic slice", "turned"])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("make", ["data", "ones", "rand"])
def test_a_value_of_a_view_is_read_before_the_leaf_is_memory(make: str, axis: int | None, view: str) -> None:
    """The graph on the tape has the leaf's first node, that of the view the memory: the leaf is known by both."""
    w = {
        "data": lambda: Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True),
        "ones": lambda: Tensor.ones(2, 2, requires_grad=True),
        "rand": lambda: Tensor.rand(2, 2, requires_grad=True),
    }[make]().shard(("CPU", "CPU:1"), axis)
    part = {
        "reshaped": lambda: w.reshape(4),
        "a slice": lambda: w[:, :1],
        "a symbolic slice": lambda: w[: Variable("n", 1, 2).bind(1)],
        "turned": lambda: w.T,
    }[view]()
    loss = (part * part).sum().realize()
    w.realize()
    loss.backward()
    assert w.grad is not None, "there is no gradient"
    reached = {"a slice": [[1, 0], [1, 0]], "a symbolic slice": [[1, 1], [0, 0]]}.get(view, [[1, 1], [1, 1]])
    np.testing.assert_array_equal(w.grad.numpy(), 2 * w.numpy() * reached)
    w.grad = None
    (part.sum() + loss.detach()).backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), reached)


@pytest.mark.parametrize("read", [False, True])
def test_a_leaf_on_two_devices_that_is_written_before_it_is_memory(read: bool) -> None:
    """What was computed between two writes has its gradient, also once the last one is memory."""
    t = Tensor([1.0, 2.0], requires_grad=True).shard(("CPU", "CPU:1"), None)
    t += 0.5
    between = t.clone()
    t *= 0.5
    if read:
        t.realize()
    (between * 3).sum().backward()
    assert (t.grad.tolist(), between.tolist(), t.tolist()) == ([3.0, 3.0], [1.5, 2.5], [0.75, 1.25])


def test_detach_shares_memory_and_cuts_the_gradient() -> None:
    """A write through it is a write to a leaf that stays one."""
    w = leaf(1.0, 2.0)
    w.detach()[0] = 5
    (w * w).sum().backward()
    assert w.grad is not None
    assert (w.tolist(), w.grad.tolist()) == ([5.0, 2.0], [10.0, 4.0])


def test_gradients_that_are_parts_of_one_buffer() -> None:
    """backward adds to the buffer, as in PyTorch, eager and captured; a gradient stays the same tensor."""
    for wrap in (lambda f: f, TinyJit):
        buffer = Tensor.zeros(5).contiguous().realize()
        w, b = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0)
        w.grad, b.grad = buffer[:3], buffer[3:]

        def step(x: Tensor, w: Tensor = w, b: Tensor = b) -> None:
            loss = (w * w * x[0]).sum() + (b * x[:2]).sum()
            loss.backward()
            Tensor.realize(w.grad, b.grad)  # type: ignore[arg-type]

        run = wrap(step)
        for i in range(1, 5):
            run(Tensor([1.0, 2.0, 3.0]).realize())
            assert buffer.tolist() == [2.0 * i, 4.0 * i, 6.0 * i, i, 2.0 * i]
        buffer.assign(buffer * 0)
        assert w.grad is not None
        assert w.grad.tolist() == [0.0] * 3
    w = leaf(1.0, 2.0)
    (w * w).sum().backward()
    first = w.grad
    (w * w).sum().backward()
    assert first is not None and w.grad is first
    assert first.tolist() == [4.0, 8.0]


# Costs


def test_a_write_does_not_look_at_other_tensors() -> None:
    """A thousand tensors that have nothing to do with it are not touched."""
    others = [numbers(2)[:1] for _ in range(1000)]
    t = numbers(4)
    views = [t[i:] for i in range(3)]
    storage = t._storage
    assert storage is not None
    assert {id(m) for m in storage.members()} == {id(t), *map(id, views)}
    assert len(others) == 1000
    for _ in range(100):
        t[1:2].assign(t[:1])
    assert len(storage._members) == 4


def test_failing_writes_leave_a_storage_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the base and its views have one value, the old one or the new one."""
    from tinygraft.engine import run

    t = numbers(4)
    v = t[1:]
    v += 10
    with Context(DEBUG=0), monkeypatch.context() as patch:

        def fail(self: run.Launch, values: Any) -> None:
            raise RuntimeError("no more")

        patch.setattr(run.Launch, "run", fail)
        with pytest.raises(RuntimeError, match="no more"):
            t.realize()
    assert t.tolist()[1:] == v.tolist()
    t += 1
    assert t.tolist()[1:] == v.tolist()


def test_a_view_that_has_outlived_its_base_is_no_reader_of_what_that_was_made_of() -> None:
    """A result kept from an earlier step does not make the next write copy the memory first."""
    cache = numbers(4)

    def step() -> Tensor:
        result = (cache * 2).reshape(2, 2)
        whole = result.T
        return whole.realize()

    kept = step()
    cache.assign(cache + 1)
    assert kernels(cache) == 1
    assert kept.tolist() == [[0.0, 4.0], [2.0, 6.0]]


def test_a_read_does_not_make_repeated_elements_single_ones() -> None:
    """A view by unfold or expand stays one when it is read and its base is gone."""
    windows = Tensor([0.0, 1.0, 2.0, 3.0, 4.0]).unfold(0, 3, 1)
    windows.numpy()
    windows[0] = 9
    assert windows.tolist() == [[9.0, 9.0, 9.0], [9.0, 9.0, 3.0], [9.0, 3.0, 4.0]]
    rows = Tensor([[0.0, 0.0]]).expand(3, 2)
    rows.numpy()
    with pytest.raises(ShapeError, match="elements in common"):
        rows += 1


def test_one_element_is_a_view() -> None:
    """An integer for each axis gives a view without axes, which is written like any other."""
    for wrap in (lambda f: f, TinyJit):
        t, m = Tensor([1.0, 2.0, 3.0]).realize(), numbers(2, 3)

        def step(t: Tensor, m: Tensor) -> None:
            t[0].assign(5)
            t[1][...] = 7
            t[2] += 1
            v = m[1, 2]
            v += 1
            m[-1, -3].assign(m[0, 1] * 100)
            m[np.int64(0), np.array(2)] *= 2
            m[0][0][()].assign(8)
            for x in t:
                x += 10
            Tensor.realize(t, m)

        run = wrap(step)
        for i in range(4):
            t.assign(Tensor([1.0, 2.0, 3.0]))
            m.assign(numbers(2, 3))
            run(t, m)
            assert (t.tolist(), m.tolist()) == ([15.0, 17.0, 14.0], [[8.0, 1.0, 4.0], [100.0, 4.0, 6.0]]), i


@pytest.mark.parametrize("symbolic", [True, False])
def test_one_element_of_a_view_that_is_read_before_and_after_a_write(symbolic: bool) -> None:
    """The elements that were kept for reading one of them are not those of the memory after it was written."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    row = Variable("row", 0, 1).bind(1) if symbolic else 1
    turned = t[row : row + 1].permute((1, 0))
    one = turned[1:2, 0:1]
    assert one.tolist() == [[4.0]]
    for expected in (4.5, 5.0):
        one += 0.5
        assert one.tolist() == [[expected]]
        assert one.item() == expected
        assert t.tolist() == [[1.0, 2.0], [3.0, expected]]
    t[1, 1] = 7
    assert one.item() == 7.0


@pytest.mark.parametrize("read", [lambda t: t.numpy().tolist(), lambda t: [t.item()]], ids=["numpy", "item"])
def test_one_element_is_read_after_each_of_several_equal_writes(read: Any) -> None:
    """The graph of the second write is the node that the first one was, over memory that has changed since."""
    t = Tensor([1.0, 2.0]).realize()
    part, last = t.chunk(2, 0)
    for k in range(1, 4):
        t *= 0.5
        assert read(last) == [2.0 * 0.5**k]
    assert part.tolist() == [0.125]
