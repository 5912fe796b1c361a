"""backward and gradient: which tensors they fill, how gradients add up, and what they refuse."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, Variable, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.state.paths import GradientPath


def grad(tensor: Tensor) -> Any:
    """The values of a tensor's gradient, None if it has none."""
    return None if tensor.grad is None else values(tensor.grad).tolist()


def test_leaves_without_a_flag_are_filled() -> None:
    """When nothing asks for a gradient, every float leaf gets one, intermediate results and integers none."""
    x, y, z = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([1, 1])
    middle = x * y + z
    loss = middle.sum()
    assert loss.backward() is loss
    assert grad(x) == [3, 4]
    assert grad(y) == [1, 2]
    assert middle.grad is None
    assert z.grad is None
    assert loss.grad is None


def test_only_flagged_tensors_are_filled_when_there_are_some() -> None:
    """requires_grad=True is served alone; flags of None and False get nothing."""
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0])
    z = Tensor([1.0, 1.0], requires_grad=False)
    middle = x * y * z
    middle.sum().backward()
    assert grad(x) == [3, 4]
    assert y.grad is None
    assert z.grad is None
    assert middle.grad is None


def test_flag_of_false_excludes() -> None:
    """A tensor that never has a gradient gets none, also where no other asks."""
    x, y = Tensor([1.0], requires_grad=False), Tensor([3.0])
    (x * y).sum().backward()
    assert x.grad is None
    assert grad(y) == [1]


def test_flag_of_a_tensor_outside_the_graph_does_not_count() -> None:
    """Flags elsewhere do not keep the leaves of this graph from their gradients."""
    elsewhere = Tensor([1.0], requires_grad=True)
    x = Tensor([3.0])
    (x * x).sum().backward()
    assert grad(x) == [6]
    assert elsewhere.grad is None


def test_second_backward_adds() -> None:
    """Two backward passes add up, over the same graph or another."""
    x = Tensor([2.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    (x * 3).sum().backward()
    assert grad(x) == [11]
    assert x.grad is not None
    assert x.grad.requires_grad is False
    x.grad = None
    (x * 3).sum().backward()
    assert grad(x) == [3]


def test_equal_constants_are_different_tensors() -> None:
    """Two tensors of ones are two leaves, and a constant of the graph is none of them."""
    a, b = Tensor.ones(2), Tensor.ones(2)
    ((a * 2 + b * 3) * 1.0).sum().backward()
    assert grad(a) == [2, 2]
    assert grad(b) == [3, 3]
    s, t = Tensor(2.0, requires_grad=True), Tensor(2.0, requires_grad=True)
    (s * t * 2.0).backward()
    assert grad(s) == grad(t) == 4
    first, other = Tensor.eye(2, requires_grad=True), Tensor.eye(2)
    (first @ other).sum().backward()
    assert grad(first) == [[1, 1], [1, 1]]
    assert other.grad is None


def test_gradient_given_for_more_than_one_element() -> None:
    """gradient= is what backward starts from."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(Tensor([1.0, 10.0]))
    assert grad(x) == [2, 40]


def test_one_element_of_any_shape_is_a_scalar() -> None:
    """A loss of shape (1, 1) needs no gradient=."""
    x = Tensor([[3.0]], requires_grad=True)
    (x * x).backward()
    assert grad(x) == [[6]]


def test_backward_of_more_than_one_element_is_refused() -> None:
    """The error names the shape, the line, and both ways out."""
    x = Tensor([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"backward needs a tensor of one element, this one has shape \(2,\)") as error:
        (x * 2).backward()
    assert "hint: reduce it first, as in t.sum().backward(...), or pass gradient= of the same shape" in str(error.value)
    with pytest.raises(
        ShapeError, match=r"gradient of shape \(2,\) got a gradient of shape \(3,\): they must be equal"
    ):
        x.gradient(x, gradient=Tensor.ones(3))


def test_backward_of_integers_is_refused() -> None:
    """Integers have no gradient, and the error says what this tensor is."""
    with pytest.raises(DTypeError, match="backward needs a tensor of floats, this one is dtypes.int"):
        Tensor([1]).sum().backward()


def test_functional_gradient() -> None:
    """gradient returns one tensor for each target, zeros for one that does not matter, and fills nothing."""
    x, y, unused = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=False), Tensor([[5.0]])
    to_x, to_y, to_unused = (x * y).sum().gradient(x, y, unused)
    assert values(to_x).tolist() == [3, 4]
    assert values(to_y).tolist() == [1, 2]
    assert values(to_unused).tolist() == [[0]]
    assert x.grad is y.grad is None


def test_gradient_of_an_intermediate_tensor() -> None:
    """Any tensor of the graph can be a target."""
    x = Tensor([2.0])
    middle = x * x
    to_x, to_middle = (middle * middle).sum().gradient(x, middle)
    assert values(to_x).tolist() == [32]
    assert values(to_middle).tolist() == [8]


def test_higher_derivatives() -> None:
    """A gradient is differentiated again, three times."""
    x = Tensor([2.0], requires_grad=True)
    y = (x**4).sum()
    found = []
    for _ in range(3):
        (y,) = y.gradient(x)
        found.append(values(y).tolist())
        y = y.sum()
    assert found == [[32], [48], [48]]


def test_values_may_be_read_before_backward() -> None:
    """Reading the loss or what lies before it does not cut the gradient."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    middle = x * x
    assert values(middle).tolist() == [1, 4]
    loss = (middle * middle).sum()
    assert loss.item() == 17
    loss.backward()
    assert grad(x) == [4, 32]


def test_detach_and_integers_stop_the_gradient() -> None:
    """Nothing flows through detach() or a cast to an integer."""
    x = Tensor([2.0, 3.0], requires_grad=True)
    (x.detach() * x + x.int()).sum().backward()
    assert grad(x) == [2, 3]


@pytest.mark.parametrize("view", [
    lambda t: t.detach(), lambda t: t.detach().unsqueeze(1), lambda t: t.unsqueeze(1).detach(),
    lambda t: t.detach()[1:], lambda t: t.detach().reshape(2, 1).reshape(1, 2),
    lambda t: (t * 1).detach().reshape(2, 1),
])  # fmt: skip
@pytest.mark.parametrize("read", [lambda t, view: t.tolist(), lambda t, view: view.tolist(), lambda t, view: None])
def test_a_read_does_not_bring_back_the_gradient_of_what_is_detached(view, read) -> None:
    """Realising the value that a detached view is over leaves the view detached, in every shape."""
    x, y = Tensor([2.0, 3.0], requires_grad=True), Tensor([5.0], requires_grad=True)
    value = x * x
    cut = view(value)
    read(value, cut)
    (cut * y).sum().backward()
    assert x.grad is None
    assert grad(y) == [cut.sum().item()]


def test_gradient_has_the_dtype_of_its_tensor() -> None:
    """A half parameter has a half gradient, whatever the loss is computed in."""
    x = Tensor([1.0, 2.0], requires_grad=True).half()
    leaf = Tensor([1.0, 2.0], dtype=dtypes.half, requires_grad=True)
    (leaf.float() * 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.dtype is dtypes.half
    assert x.grad is None


def test_parameter_that_was_assigned_to_keeps_its_place_in_the_graph() -> None:
    """A loss computed before an assignment has its gradient at the value it was computed with."""
    w = Tensor([2.0], requires_grad=True)
    loss = (w * w).sum()
    w.assign(w - 1.0)
    loss.backward()
    assert grad(w) == [4]


def test_loss_after_an_assignment_sees_the_new_value_only() -> None:
    """Training steps one after another: each gradient is at the value of its step."""
    w = Tensor([1.0], requires_grad=True)
    found = []
    for _ in range(3):
        w.grad = None
        (w * w).sum().backward()
        assert w.grad is not None
        found.append(grad(w))
        w.assign(w.detach() - 0.25 * w.grad)
    assert found == [[2], [1], [0.5]]


def test_running_statistics_get_no_gradient() -> None:
    """A buffer that is assigned to in the forward pass, flag False, is no leaf and changes no gradient."""
    mean = Tensor([0.0], requires_grad=False)
    w = Tensor([3.0], requires_grad=True)
    y = w * 2
    mean.assign(0.5 * mean + 0.5 * y.detach())
    (y * y).sum().backward()
    assert grad(w) == [24]
    assert mean.grad is None
    assert values(mean).tolist() == [3]


def test_gradient_through_views_and_indices_that_were_assigned() -> None:
    """t[i] = v passes the gradient to v there, and to the old values elsewhere."""
    v = Tensor([5.0, 6.0], requires_grad=True)
    base = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    t = base * 1.0
    t[1:3] = v
    (t * Tensor([1.0, 10.0, 100.0, 1000.0], requires_grad=False)).sum().backward()
    assert grad(v) == [10, 100]
    assert grad(base) == [1, 0, 0, 1000]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_gradient_through_a_symbolic_part(size: int) -> None:
    """The part up to a variable gets its gradient, the rest zeros."""
    x = Tensor([float(i) for i in range(8)], requires_grad=True)
    part = x.shrink_to(Variable("kept", 1, 8).bind(size))
    (part * part).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [2.0 * i if i < size else 0.0 for i in range(8)]


def test_gradient_of_an_index_adds_up() -> None:
    """A place that is read twice gets both gradients."""
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[Tensor([0, 2, 2])] * Tensor([1.0, 10.0, 100.0], requires_grad=False)).sum().backward()
    assert grad(x) == [1, 0, 110]


def test_gradients_of_a_network_are_those_of_pytorch() -> None:
    """Two layers, layernorm, gelu and cross entropy together."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 5)).astype(np.float32), rng.integers(0, 3, 6)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((5, 7), (7,), (7, 3), (3,))]
    ours = [Tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    hidden = Tensor(x).linear(ours[0], ours[1]).layernorm().gelu()
    hidden.linear(ours[2], ours[3]).sparse_categorical_crossentropy(Tensor(labels)).backward()
    F = torch.nn.functional
    wide = F.gelu(F.layer_norm(torch.tensor(x) @ theirs[0] + theirs[1], (7,)), approximate="tanh")
    F.cross_entropy(wide @ theirs[2] + theirs[3], torch.tensor(labels)).backward()
    for our, their in zip(ours, theirs, strict=True):
        assert our.grad is not None
        np.testing.assert_allclose(values(our.grad), their.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_forgotten_intermediates_do_not_stay_alive() -> None:
    """backward keeps no tensor alive but the gradients it fills."""
    from tinygraft.tensor.state.live import live_tensors

    x = Tensor([1.0], requires_grad=True)
    gc.collect()
    before = len(live_tensors())
    (x * 2 + 1).sum().backward()
    gc.collect()
    assert len(live_tensors()) == before + 1


def test_a_computed_tensor_stays_one_when_it_is_overwritten() -> None:
    """By a constant, by a leaf itself, or where a method had nothing to do: what is written later has its gradient."""
    for read in (False, True):
        w, u = (Tensor([1.0, 2.0], requires_grad=True).realize() for _ in "wu")
        constant = w * 2
        constant.assign(Tensor([5.0, 6.0]))
        copy = w * 2
        copy.assign(w)
        same = w.dropout(0.5)
        rows = (w * 2).reshape(2, 1)
        rows.reshape(2).assign(Tensor([7.0, 8.0]))
        for t in (constant, copy, same):
            if read:
                t.numpy()
            t += u * 3
        same[0] = u[1]
        rows += u.reshape(2, 1)
        (constant.sum() + (copy * 10).sum() + (same * 100).sum() + (rows * 1000).sum()).backward()
        assert w.grad is not None and u.grad is not None
        assert w.grad.tolist() == [10.0, 110.0]
        assert u.grad.tolist() == [3 + 30 + 1000.0, 3 + 30 + 300 + 100 + 1000.0]
        assert w.tolist() == [1.0, 2.0]


def test_what_is_written_to_a_leaf_through_a_view_of_it_all_leaves_it_one() -> None:
    """Uses before and after the write give one gradient, whatever shape the view has."""
    w = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    before = w * 2
    w.reshape(2, 2).assign(before.reshape(2, 2) * 5)
    ((before * before).sum() + (w * w).sum()).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [8 * n + 20 * n for n in (1.0, 2.0, 3.0, 4.0)]


def test_a_value_with_the_memory_of_a_leaf_is_no_leaf() -> None:
    """What contiguous(), a cast to the same dtype or + give is written beside the leaf, and passes gradients on."""
    for same in (lambda t: t.contiguous(), lambda t: t.float(), lambda t: +t, lambda t: t.repeat(1)):
        w = Tensor([1.0, 2.0], requires_grad=True).realize()
        s = Tensor([3.0, 4.0], requires_grad=True).realize()
        memory, h = w.uop.base, same(w)
        h *= s
        h.sum().backward()
        assert w.grad is not None and s.grad is not None
        assert (w.grad.tolist(), s.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])
        assert (h.tolist(), w.tolist()) == ([3.0, 8.0], [1.0, 2.0])
        assert w.uop.base is memory


def test_a_value_whose_lender_has_died_is_a_leaf() -> None:
    """As PyTorch gives the tensor itself where there is nothing to do."""
    w = Tensor([1.0, 2.0], requires_grad=True).float()
    for expected in ([0.5, 1.0], [0.25, 0.5]):
        w.grad = None
        (w * w).sum().backward()
        assert w.grad is not None
        w -= 0.25 * w.grad
        assert (w.tolist(), w.requires_grad) == (expected, True)


def test_shard_gives_a_value_also_where_it_lies_there() -> None:
    """What is written to it does not show in the tensor that it was made of."""
    devices = ("PYTHON", "PYTHON:1")
    t = Tensor([1.0, 2.0], device="PYTHON").shard(devices, 0).realize()
    again = t.shard(devices, 0)
    again += 1
    assert (t.tolist(), again.tolist()) == ([1.0, 2.0], [2.0, 3.0])


MAKE_ALIKE = {
    "computed": lambda w: w * 2,
    "cast": lambda w: w.int().float() * 2,
    "constant": lambda w: Tensor.full((4,), 2.0),
    "part of a constant": lambda w: Tensor.full((6,), 2.0)[1:5],
    "clone": lambda w: (w * 2).clone(),
    "contiguous": lambda w: (w * 2).contiguous(),
    "detach": lambda w: w.detach(),
    "detach of a computed": lambda w: (w * 2).detach(),
    "part": lambda w: w[:],
    "part of a computed": lambda w: (w * 2)[0:4],
    "turned": lambda w: w.reshape(2, 2).T.reshape(4),
    "memory": lambda w: w.contiguous(),
    "copy of memory": lambda w: w.clone(),
}


@pytest.mark.parametrize("make", MAKE_ALIKE.values(), ids=MAKE_ALIKE)
@pytest.mark.parametrize("when", ["lazy", "read before", "read after", "written after"])
def test_two_tensors_made_alike_are_two_leaves(make: Any, when: str) -> None:
    """Each that asks for a gradient has its own, and what was memory of another tensor still is."""
    w = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    a, b = make(w), make(w)
    shared = a._storage is not None and a._storage is w._storage
    if when == "read before":
        Tensor.realize(a, b)
    a.requires_grad_()
    b.requires_grad_()
    values_of_a = a.numpy() if when == "read after" else None
    loss = (a * a + 5 * b).sum()
    if when == "written after":
        loss.realize()
        with Tensor.no_grad():
            w += 1
            a[0] = 9
    first = make(Tensor([1.0, 2.0, 3.0, 4.0])).numpy()
    assert values_of_a is None or (values_of_a == first).all()
    loss.backward()
    assert a.requires_grad and b.requires_grad and w.grad is None
    assert (grad(a), grad(b)) == ((2 * first).tolist(), [5.0] * 4)
    a += 10
    if shared:
        assert sorted(a.tolist()) == sorted(w.tolist()) == sorted(b.tolist())
    else:
        assert b.tolist() == first.tolist()
        assert w.tolist() == ([2.0, 3.0, 4.0, 5.0] if when == "written after" else [1.0, 2.0, 3.0, 4.0])


def test_a_leaf_over_anothers_memory_is_written_in_place_and_stays_a_leaf() -> None:
    """The steps of an attack: a detached image is changed by its own gradient, and shows in the image."""
    image = Tensor([1.0, 2.0]).realize()
    x = image.detach().requires_grad_()
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
        assert x.grad is not None
        with Tensor.no_grad():
            x -= 0.25 * x.grad
        assert x.requires_grad
    assert x.tolist() == image.tolist() == [0.125, 0.25]


def test_what_is_detached_from_a_computed_value_is_a_leaf() -> None:
    """Also once that value is in memory, and twice: how a checkpoint cuts a network into parts."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = (w * 3).realize()
    a, b = h.detach().requires_grad_(), h.detach().requires_grad_()
    for _ in range(2):
        (a * a + 5 * b).sum().backward()
    assert (grad(a), grad(b), w.grad) == ([12.0, 24.0], [10.0, 10.0], None)
    assert a.grad is not None
    a -= 0.25 * a.grad
    assert (a.requires_grad, a.tolist(), h.tolist()) == (True, [0.0, 0.0], [0.0, 0.0])


def test_asking_a_computed_tensor_for_a_gradient_leaves_it_on_the_way() -> None:
    """What was computed from a leaf stays so, as in PyTorch, where the call changes nothing."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    y = (w * 3).requires_grad_()
    part = w[1:].requires_grad_()
    ((y * y).sum() + part.sum()).backward()
    assert grad(w) == [18.0, 37.0]


NOTHING = {
    "pad": lambda t: t.pad(((0, 0),)),
    "pad by reflection": lambda t: t.pad(((0, 0),), mode="reflect"),
    "roll": lambda t: t.roll(0, 0),
    "repeat": lambda t: t.repeat((1,)),
    "cat": lambda t: Tensor.cat(t),
    "cast": lambda t: t.cast(dtypes.float32),
    "float": lambda t: t.float(),
    "contiguous": lambda t: t.contiguous(),
    "plus": lambda t: +t,
    "clone": lambda t: t.clone(),
}


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("method", NOTHING.values(), ids=NOTHING)
def test_a_result_of_a_method_that_had_nothing_to_do_is_no_leaf(method, read):
    """It is a value of its own: what is written into it leaves the leaf, and keeps its tape."""
    x = Tensor([3.0, 5.0], requires_grad=True).realize()
    y = method(x)
    y *= x
    if read:
        assert y.tolist() == [9.0, 25.0]
    y.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [6.0, 10.0]
    assert y.grad is None
    assert x.tolist() == [3.0, 5.0]


@pytest.mark.parametrize("read", [False, True])
def test_a_part_of_such_a_result_that_is_written(read):
    """Through a view, in memory or not."""
    x = Tensor([3.0, 5.0], requires_grad=True).realize()
    y = x.repeat((1,))
    y[0:1] *= 2
    if read:
        assert y.tolist() == [6.0, 5.0]
    (y * y).sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [24.0, 10.0]


@pytest.mark.parametrize("read", [False, True])
def test_such_a_result_of_a_leaf_that_is_gone_is_the_leaf(read):
    """Nobody else holds it: a step by hand leaves it one."""
    w = Tensor([3.0, 5.0], requires_grad=True).contiguous()
    for _ in range(2):
        w.grad = None
        (w * w).sum().backward()
        assert w.grad is not None, "there is no gradient"
        w -= w.grad * 0.25
        if read:
            w.realize()
    assert w.tolist() == [0.75, 1.25]
    assert w.requires_grad


@pytest.mark.parametrize("read", [False, True])
def test_a_value_that_is_given_what_waits_to_be_written_elsewhere(read):
    """It is written beside that memory: the leaf stays in its own, and earlier losses find it there."""
    leaf = Tensor([3.0, 5.0], requires_grad=True).realize()
    factor, memory = Tensor(2.0, requires_grad=True).realize(), leaf.uop.base
    loss = (leaf * 7).sum()
    part = leaf.unsqueeze(1)
    part *= factor
    same, value = +leaf, factor + 1
    value = value.expand(2) * 1
    value.assign(leaf)
    for t in (same, value):
        t -= 1
    if read:
        assert (value.tolist(), same.tolist(), leaf.tolist()) == ([5.0, 9.0], [5.0, 9.0], [6.0, 10.0])
        assert leaf.uop.base is memory
    loss.backward()
    assert leaf.grad is not None, "there is no gradient"
    assert leaf.grad.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("write", ["part", "whole", "twice", "nothing"])
def test_what_has_a_leafs_memory_is_no_leaf_after_that_was_written(write: str, read: bool) -> None:
    """h = w.contiguous() is w's memory for now; w is written, then h: it has the old value, and its gradient is w's."""
    w, s = Tensor([1.0, 2.0], requires_grad=True).realize(), Tensor([3.0, 5.0]).realize()
    h = w.contiguous()
    new = {"part": [2.0, 2.0], "whole": [5.0, 6.0], "twice": [2.0, 3.0], "nothing": [1.0, 2.0]}[write]
    if write in ("part", "twice"):
        w[0:1] += 1.0
    if write == "twice":
        w[1:2] += 1.0
    if write == "whole":
        w.assign(Tensor([5.0, 6.0]))
    h *= s
    if read:
        assert h.tolist() == [3.0, 10.0]
    h.sum().backward()
    assert grad(w) == [3.0, 5.0]
    assert (w.tolist(), h.tolist()) == (new, [3.0, 10.0])


def test_what_is_computed_alike_is_one_value() -> None:
    """The gradient by a computed tensor counts all uses of its value; leaves that hold the same are told apart."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    once, again = x * 2, x * 2
    assert (once * 3 + again).sum().gradient(once)[0].tolist() == [4.0, 4.0]
    assert (once * 3 + again).sum().gradient(once.reshape(2))[0].tolist() == [4.0, 4.0]
    one, other = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    assert [g.item() for g in (one * 3 + other).sum().gradient(one, other)] == [3.0, 1.0]


@pytest.mark.parametrize(
    "read", ["nothing", "the source before", "the copy before", "the source after", "the copy after"]
)
@pytest.mark.parametrize("again", ["assign", "part", "minus"])
def test_what_was_computed_from_a_written_value_is_no_leaf_after_that_was_written_again(read: str, again: str) -> None:
    """All of y is a constant, by a write through detach(): no gradient goes from z on, but it was computed."""
    x = Tensor([1.0, 2.0], requires_grad=True).realize()
    y = x * 3
    other = y * 2
    y.detach().assign(Tensor([7.0, 8.0]))
    if read == "the source before":
        assert y.tolist() == [7.0, 8.0]
    z = y * 2
    if read == "the copy before":
        assert z.tolist() == [14.0, 16.0]
    if again == "assign":
        y.assign(Tensor([1.0, 1.0]))
    elif again == "part":
        y[0] = 1.0
    else:
        y -= 1
    if read == "the source after":
        assert y[0].item() == (6.0 if again == "minus" else 1.0)
    if read == "the copy after":
        assert z.tolist() == [14.0, 16.0]
    z.assign(other)
    assert z.tolist() == [6.0, 12.0]
    z.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("order", ["old, new", "new, old", "new", "old", "nothing"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_gradient_goes_through_a_value_that_is_written_over_in_the_same_run(order: str, sign: float) -> None:
    """Both the value before a write and what was computed from it are realised at once, in memory of their own."""
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    y = Tensor([1.0, 1.0, 1.0]).realize()
    y += sign * x * x
    z = y * 3
    loss = z.sum() * 2
    y[1:2].assign(Tensor([5.0]))
    tensors = {"old": z, "new": y}
    if order != "nothing":
        Tensor.realize(*[tensors[name] for name in order.split(", ")])
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [sign * 12.0, sign * 24.0, sign * 36.0]
    (y * y).sum().backward()
    first, last = 1 + sign, 1 + sign * 9
    assert x.grad.tolist() == [sign * (12.0 + 4 * first), sign * 24.0, sign * (36.0 + 12 * last)]


@pytest.mark.parametrize("order", ["cut, on", "on, cut", "cut", "on"])
def test_a_value_that_is_detached_and_used_in_one_realise_keeps_its_gradient(order: str) -> None:
    """The memory of it is read by both."""
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    total = (x * x).sum(0, keepdim=True).expand(3)
    tensors = {"cut": total.detach(), "on": total * 3}
    del total
    Tensor.realize(*[tensors[name] for name in order.split(", ")])
    tensors["on"].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [18.0, 36.0, 54.0]


def test_the_collector_rests_while_gradients_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """By backward and by gradient; after it Python collects as before."""
    seen = []
    gradients = GradientPath.gradients

    def noted(self: GradientPath, *arguments: Any) -> Any:
        seen.append(gc.isenabled())
        return gradients(self, *arguments)

    monkeypatch.setattr(GradientPath, "gradients", noted)
    x = Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum().backward()
    loss.gradient(x)
    assert seen == [False, False]
    assert gc.isenabled()
