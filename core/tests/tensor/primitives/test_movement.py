"""Movement, joining and padding, held to numpy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_numpy import evaluate, values
from tinygraft import Tensor, dtypes, nn
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop.uop import UOp

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)

SAME: list[tuple[str, Callable[[Tensor], Tensor], Callable[[Any], Any]]] = [
    ("reshape", lambda t: t.reshape(4, 6), lambda x: x.reshape(4, 6)),
    ("reshape_tuple", lambda t: t.reshape((4, 6)), lambda x: x.reshape(4, 6)),
    ("reshape_rest", lambda t: t.reshape(3, -1), lambda x: x.reshape(3, -1)),
    ("reshape_keep", lambda t: t.reshape(None, -1), lambda x: x.reshape(2, -1)),
    ("view", lambda t: t.view(24), lambda x: x.reshape(24)),
    ("flatten", lambda t: t.flatten(), lambda x: x.reshape(-1)),
    ("flatten_some", lambda t: t.flatten(1), lambda x: x.reshape(2, 12)),
    ("flatten_front", lambda t: t.flatten(0, 1), lambda x: x.reshape(6, 4)),
    ("unflatten", lambda t: t.unflatten(2, (2, 2)), lambda x: x.reshape(2, 3, 2, 2)),
    ("unflatten_rest", lambda t: t.unflatten(-1, (2, -1)), lambda x: x.reshape(2, 3, 2, 2)),
    ("unsqueeze", lambda t: t.unsqueeze(1), lambda x: x[:, None]),
    ("unsqueeze_last", lambda t: t.unsqueeze(-1), lambda x: x[..., None]),
    ("squeeze", lambda t: t.unsqueeze(0).unsqueeze(2).squeeze(), lambda x: x),
    ("squeeze_one", lambda t: t.unsqueeze(0).unsqueeze(2).squeeze(0), lambda x: x[:, None]),
    ("squeeze_nothing", lambda t: t.squeeze(1), lambda x: x),
    ("expand", lambda t: t.unsqueeze(0).expand(5, -1, None, 4), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    ("expand_new", lambda t: t.expand(2, 2, 3, 4), lambda x: np.broadcast_to(x, (2, 2, 3, 4))),
    ("permute", lambda t: t.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    ("permute_negative", lambda t: t.permute((-1, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    ("transpose", lambda t: t.transpose(), lambda x: x.swapaxes(0, 1)),
    ("transpose_two", lambda t: t.transpose(0, -1), lambda x: x.swapaxes(0, 2)),
    ("T", lambda t: t.T, lambda x: x.swapaxes(0, 1)),
    ("mT", lambda t: t.mT, lambda x: x.swapaxes(1, 2)),
    ("movedim", lambda t: t.movedim(0, 2), lambda x: np.moveaxis(x, 0, 2)),
    ("movedim_two", lambda t: t.movedim((0, 1), (1, 2)), lambda x: np.moveaxis(x, (0, 1), (1, 2))),
    ("flip", lambda t: t.flip(0), lambda x: np.flip(x, 0)),
    ("flip_two", lambda t: t.flip(0, -1), lambda x: np.flip(x, (0, 2))),
    ("flip_all", lambda t: t.flip(), np.flip),
    ("shrink", lambda t: t.shrink(((0, 1), None, (1, 3))), lambda x: x[:1, :, 1:3]),
    ("shrink_to", lambda t: t.shrink_to(1, 2, None), lambda x: x[:1, :2]),
    ("narrow", lambda t: t.narrow(2, -3, 2), lambda x: x[:, :, 1:3]),
    ("pad", lambda t: t.pad((1, 2)), lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)))),
    ("pad_pairs", lambda t: t.pad(((1, 0), None, (0, 2))), lambda x: np.pad(x, ((1, 0), (0, 0), (0, 2)))),
    (
        "pad_value",
        lambda t: t.pad((1, 1, 2, 0), value=7),
        lambda x: np.pad(x, ((0, 0), (2, 0), (1, 1)), constant_values=7),
    ),
    ("pad_negative", lambda t: t.pad((-1, 2, 1, -1)), lambda x: np.pad(x[:, :2, 1:], ((0, 0), (1, 0), (0, 2)))),
    (
        "pad_reflect",
        lambda t: t.pad((2, 1, 1, 2), mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (1, 2), (2, 1)), "reflect"),
    ),
    ("pad_edge", lambda t: t.pad((2, 5), mode="replicate"), lambda x: np.pad(x, ((0, 0), (0, 0), (2, 5)), "edge")),
    ("pad_wrap", lambda t: t.pad((2, 1, 3, 0), mode="circular"), lambda x: np.pad(x, ((0, 0), (3, 0), (2, 1)), "wrap")),
    (
        "pad_to",
        lambda t: t.pad_to(3, None, 5, value=1),
        lambda x: np.pad(x, ((0, 1), (0, 0), (0, 1)), constant_values=1),
    ),
    ("cat", lambda t: t.cat(t, t, dim=1), lambda x: np.concatenate([x, x, x], 1)),
    ("cat_list", lambda t: Tensor.cat([t, t], dim=-1), lambda x: np.concatenate([x, x], -1)),
    ("cat_class", lambda t: Tensor.cat(t, t), lambda x: np.concatenate([x, x])),
    ("stack", lambda t: t.stack(t, dim=1), lambda x: np.stack([x, x], 1)),
    ("stack_last", lambda t: Tensor.stack([t, t, t], dim=-1), lambda x: np.stack([x, x, x], -1)),
    ("repeat", lambda t: t.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3))),
    ("repeat_new", lambda t: t.repeat(2, 1, 1, 1), lambda x: np.tile(x, (2, 1, 1, 1))),
    ("tile", lambda t: t.tile(2), lambda x: np.tile(x, 2)),
    ("repeat_interleave", lambda t: t.repeat_interleave(2, 1), lambda x: np.repeat(x, 2, 1)),
    ("repeat_interleave_flat", lambda t: t.repeat_interleave(3), lambda x: np.repeat(x, 3)),
    ("unfold", lambda t: t.unfold(1, 2, 1), lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1)),
    (
        "unfold_step",
        lambda t: t.unfold(-1, 2, 2),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 2)[:, :, ::2],
    ),
    ("roll", lambda t: t.roll(2, 1), lambda x: np.roll(x, 2, 1)),
    ("roll_two", lambda t: t.roll((1, -1), (0, 2)), lambda x: np.roll(x, (1, -1), (0, 2))),
    ("roll_flat", lambda t: t.roll(5), lambda x: np.roll(x, 5)),
    ("diagonal", lambda t: t.diagonal(), lambda x: np.diagonal(x)),
    ("diagonal_above", lambda t: t.diagonal(1, 1, 2), lambda x: np.diagonal(x, 1, 1, 2)),
    ("diagonal_below", lambda t: t.diagonal(-2, 2, 0), lambda x: np.diagonal(x, -2, 2, 0)),
    ("diagonal_none", lambda t: t.diagonal(9), lambda x: np.diagonal(x, 9)),
    ("diag", lambda t: t.flatten().diag(), lambda x: np.diag(x.reshape(-1))),
    ("diag_back", lambda t: t[0].diag(), lambda x: np.diag(x[0])),
]


@pytest.mark.parametrize(("method", "reference"), [s[1:] for s in SAME], ids=[s[0] for s in SAME])
def test_movement_agrees_with_numpy(method: Callable[[Tensor], Tensor], reference: Callable[[Any], Any]) -> None:
    """The method has the shape and the values of its numpy counterpart."""
    np.testing.assert_array_equal(values(method(Tensor(X))), reference(X))


@pytest.mark.parametrize(("method", "reference"), [s[1:] for s in SAME], ids=[s[0] for s in SAME])
def test_gradients_go_back_to_where_elements_came_from(
    method: Callable[[Tensor], Tensor], reference: Callable[[Any], Any]
) -> None:
    """The gradient of a movement adds up, for each element, what arrives at its copies and windows."""
    places = reference(np.arange(1000, 1024).reshape(X.shape)).astype(np.int64)  # padding is no place
    x = Tensor(X.astype(np.float32), requires_grad=True)
    weight = np.random.default_rng(5).integers(1, 9, places.shape).astype(np.float32)
    (method(x) * Tensor(weight)).sum().backward()
    expected = np.bincount(places.reshape(-1), weights=weight.reshape(-1), minlength=1024)[1000:]
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected.reshape(X.shape))


def test_parts_agree_with_numpy() -> None:
    """split, chunk and unbind give the parts in order; chunk may give fewer than asked for."""
    t = Tensor(X)
    for parts, expected in (
        (t.split(2, 1), [X[:, :2], X[:, 2:]]),
        (t.split([1, 0, 3], -1), [X[..., :1], X[..., :0], X[..., 1:]]),
        (t.chunk(3, 2), [X[..., :2], X[..., 2:]]),
        (t.unbind(1), [X[:, 0], X[:, 1], X[:, 2]]),
    ):
        assert len(parts) == len(expected)
        for part, wanted in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(values(part), wanted)
    assert [len(p) for p in Tensor.ones(0).chunk(2)] == [0, 0]


def test_meshgrid_agrees_with_numpy() -> None:
    """Both indexings give numpy's grids."""
    a, b = np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32)
    for indexing in ("ij", "xy"):
        for found, expected in zip(
            Tensor(a).meshgrid(Tensor(b), indexing=indexing), np.meshgrid(a, b, indexing=indexing), strict=True
        ):
            np.testing.assert_array_equal(values(found), expected)


def test_cat_promotes() -> None:
    """Tensors of several dtypes are joined in the one they promote to."""
    t = Tensor([1, 2]).cat(Tensor([True]), Tensor([0.5]))
    assert t.dtype is dtypes.float32
    assert values(t).tolist() == [1.0, 2.0, 1.0, 0.5]


def test_padding_keeps_what_is_not_a_number() -> None:
    """Padding with a value does not touch NaN and infinities inside, and infinity can be the value."""
    t = Tensor([float("nan"), float("inf")]).pad((1, 1), value=-float("inf"))
    np.testing.assert_array_equal(values(t), [-np.inf, np.nan, np.inf, -np.inf])


def test_tensors_without_elements_or_axes_move() -> None:
    """Rank 0 and axes of size 0 pass through."""
    scalar = Tensor(3)
    assert scalar.reshape(1, 1).tolist() == [[3]]
    assert scalar.flatten().shape == (1,)
    assert scalar.permute().shape == scalar.squeeze().shape == scalar.T.shape == scalar.expand(()).shape == ()
    assert scalar.unsqueeze(0).tolist() == [3]
    assert scalar.flip().item() == scalar.transpose(0, 0).item() == 3
    none = Tensor.ones(0, 3)
    assert none.T.shape == (3, 0)
    assert none.reshape(3, 0, 2).shape == (3, 0, 2)
    assert values(none.cat(Tensor.ones(2, 3))).shape == (2, 3)
    assert values(none.pad((0, 0, 1, 0), value=5)).tolist() == [[5.0, 5.0, 5.0]]


def test_views_are_new_tensors() -> None:
    """A movement that changes nothing gives another tensor over the same memory; a cast that does not, a value."""
    t = Tensor([1, 2])
    for number, view in enumerate((
        t.reshape(2),
        t.permute(0),
        t.expand(2),
        t.shrink(((0, 2),)),
        t.flip(()),
        t.squeeze(),
    )):  # fmt: skip
        assert view is not t
        view.assign(Tensor([number, 7]))
        assert t.tolist() == [number, 7]
    same = t.cast("int32")
    same.assign(Tensor([9, 9]))
    assert t.tolist() == [5, 7]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda t: t.reshape(5, 5), "cannot reshape (2, 3, 4), which has 24 elements, to (5, 5), which has 25"),
        (lambda t: t.reshape(5, -1), "cannot reshape (2, 3, 4) to (5, -1): 24 elements are no multiple of 5"),
        (lambda t: t.reshape(-1, -1), "one size can be -1, got (-1, -1) for shape (2, 3, 4)"),
        (lambda t: t.reshape(1, 2, 3, None), "None keeps axis 3 of (2, 3, 4), which has no such axis"),
        (
            lambda t: t.expand(2, 3, 5),
            "cannot expand (2, 3, 4) to (2, 3, 5): axis -1 is 4 and would be 5, and only axes of size 1 grow",
        ),
        (lambda t: t.expand(4), "cannot expand (2, 3, 4) to (4,), which has fewer axes"),
        (lambda t: t.permute(0, 1), "permute needs each axis of (2, 3, 4) once, got (0, 1)"),
        (lambda t: t.permute(0, 1, 3), "axis 3 is not an axis of shape (2, 3, 4): choose from -3 to 2"),
        (lambda t: t.unsqueeze(5), "axis 5 is not an axis of shape (2, 3, 4): choose from -4 to 3"),
        (lambda t: t.flatten(2, 1), "flatten needs start_dim <= end_dim, got 2 and 1 for shape (2, 3, 4)"),
        (lambda t: t.shrink(((0, 3), None, None)), "cannot shrink axis 0 of (2, 3, 4) to (0, 3)"),
        (lambda t: t.shrink(((0, 1),)), "shrink needs one (start, end) or None for each axis of (2, 3, 4)"),
        (
            lambda t: t.split([1, 1], 1),
            "split needs sizes that add up to 3, axis 1 of (2, 3, 4), and none below 0; [1, 1] do",
        ),
        (lambda t: t.split(0), "split needs parts of at least 1 element, got 0"),
        (lambda t: t.chunk(0), "chunk needs at least 1 part, got 0"),
        (lambda t: t.unfold(0, 3, 1), "windows of size 3 and step 1 do not fit axis 0 of (2, 3, 4)"),
        (lambda t: t.diagonal(0, 1, 1), "diagonal needs two axes, got 1 and 1 of (2, 3, 4)"),
        (lambda t: t.diag(), "diag needs one or two axes, got (2, 3, 4)"),
        (lambda t: t.pad((1,)), "pad needs pairs of numbers, at most one pair for each axis of (2, 3, 4), got (1,)"),
        (lambda t: t.pad(((1, 1),)), "pad needs one pair or None for each axis of (2, 3, 4), got ((1, 1),)"),
        (lambda t: t.pad((1, 1), mode="x"), "pad takes the modes constant, reflect, replicate and circular, got 'x'"),
        (lambda t: t.pad((4, 0), mode="reflect"), "pad with mode reflect has room for 3 on axis 2 of (2, 3, 4)"),
        (lambda t: t.pad((5, 0), mode="circular"), "pad with mode circular has room for 4 on axis 2 of (2, 3, 4)"),
        (lambda t: t.pad_to(1), "pad_to needs a size or None for each axis of (2, 3, 4), got (1,)"),
        (lambda t: t.cat(t[0]), "cannot cat shapes (2, 3, 4) and (3, 4): they have 3 and 2 axes"),
        (
            lambda t: t.cat(t[:, 1:], dim=0),
            "cannot cat shapes (2, 3, 4) and (2, 2, 4) along axis 0: axis 1 is 3 in the first and 2 in the other",
        ),
        (
            lambda t: t.stack(t[:1]),
            "cannot stack shapes (2, 3, 4) and (1, 3, 4): axis 0 is 2 in the first and 1 in the other",
        ),
        (lambda t: t.stack(t[0]), "cannot stack shapes (2, 3, 4) and (3, 4): they have 3 and 2 axes"),
        (lambda t: Tensor.cat([]), "cat needs at least one tensor, got none"),
        (lambda t: t.repeat(2), "repeat needs a number for each axis of (2, 3, 4), got (2,)"),
        (lambda t: t.roll((1, 2), 0), "roll needs one shift for each axis, got (1, 2) and 0"),
        (lambda t: t.movedim((0, 1), 0), "movedim needs as many sources as destinations, got (0, 1) and 0"),
        (lambda t: t.meshgrid(t), "meshgrid needs one axis each, got (2, 3, 4), (2, 3, 4)"),
        (lambda t: t[0, 0].meshgrid(indexing="ab"), "meshgrid takes the indexing 'ij' and 'xy', got 'ab'"),
    ],
)
def test_errors_say_what_does_not_fit(method: Callable[[Tensor], Tensor], message: str) -> None:
    """A movement that cannot be raises ShapeError with the shape and what was asked."""
    with pytest.raises(ShapeError, match=re.escape(message)):
        method(Tensor(X))


def test_errors_of_views_name_the_line_that_made_the_tensor() -> None:
    """A view that does not fit says where its tensor was made."""
    t = Tensor.ones(2, 3)
    with pytest.raises(ShapeError, match=r"made at \S*test_movement.py:\d+$"):
        t.reshape(7)


def test_symbolic_sizes_pass_through() -> None:
    """A bound variable as a size goes through shrink, reshape, expand, permute, pad, flip and elementwise methods."""
    n = UOp.variable("n", 1, 8).bind(3)
    x = np.arange(16, dtype=np.int32).reshape(8, 2)
    t = Tensor(x)[:n]
    assert t.shape == (n, 2)
    np.testing.assert_array_equal(evaluate(t.uop), x[:3])
    np.testing.assert_array_equal(evaluate(t.permute(1, 0).flip(0).uop), x[:3].T[::-1])
    np.testing.assert_array_equal(evaluate(t.reshape(-1).uop), x[:3].reshape(-1))
    np.testing.assert_array_equal(evaluate(t.reshape(n, 1, 2).expand(-1, 4, -1).uop), np.repeat(x[:3, None], 4, 1))
    np.testing.assert_array_equal(evaluate((t + t * 2).uop), x[:3] * 3)
    np.testing.assert_array_equal(evaluate(t.unsqueeze(0).squeeze(0).pad((1, 1)).uop), np.pad(x[:3], ((0, 0), (1, 1))))
    row = Tensor(x)[n : n + 1]
    assert row.shape == (1, 2)
    np.testing.assert_array_equal(evaluate(row.uop), x[3:4])
    np.testing.assert_array_equal(evaluate(Tensor(x)[n].uop), x[3])


@pytest.mark.parametrize(
    ("part", "bounds"),
    [
        (lambda t, n: t[:n], "(0, 9)"),
        (lambda t, n: t.shrink_to(n, 2), "(0, 9)"),
        (lambda t, n: t[n - 3 : n], "(6, 9)"),
        (lambda t, n: t[n - 10 : n - 8], "(-1, 1)"),
        (lambda t, n: t[n - 5 : n - 6], "(4, 3)"),
    ],
)
def test_a_symbolic_part_stays_within_its_axis(part: Callable[[Tensor, UOp], Tensor], bounds: str) -> None:
    """A variable bound to more than an axis has raises where it is used: a kernel would read what lies behind."""
    t = Tensor(np.arange(16).reshape(8, 2))
    with pytest.raises(ShapeError, match=re.escape(f"cannot shrink axis 0 of (8, 2) to {bounds}, with n = 9")) as error:
        part(t, UOp.variable("n", 1, 20).bind(9))
    assert "made at" in str(error.value)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_chains_of_movement_agree_with_numpy(data: st.DataObject) -> None:
    """Any chain of permute, flip, shrink, pad, reshape and step slices has numpy's values."""
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    t = Tensor(x)
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["permute", "flip", "shrink", "pad", "reshape", "step"]))
        if kind == "permute":
            order = data.draw(st.permutations(range(x.ndim)))
            t, x = t.permute(order), x.transpose(order)
        elif kind == "flip":
            axis = data.draw(st.integers(0, x.ndim - 1))
            t, x = t.flip(axis), np.flip(x, axis)
        elif kind == "shrink":
            ends = [(data.draw(st.integers(0, n)), data.draw(st.integers(0, n))) for n in x.shape]
            pairs = [(min(e), max(e)) for e in ends]
            t, x = t.shrink(pairs), x[tuple(slice(*p) for p in pairs)]
        elif kind == "pad":
            widths = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in x.shape]
            t, x = t.pad(widths), np.pad(x, widths)
        elif kind == "reshape":
            t, x = t.reshape(x.shape[::-1]), x.reshape(x.shape[::-1])
        else:
            step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
            t, x = t[..., ::step], x[..., ::step]
    np.testing.assert_array_equal(evaluate(t.uop), x)


@pytest.mark.parametrize(
    ("formula", "sizes", "reference"),
    [
        ("a b c -> c a b", {}, lambda x: x.transpose(2, 0, 1)),
        ("a b c -> (a b) c", {}, lambda x: x.reshape(6, 4)),
        ("a b (c d) -> a (b d) c", {"c": 2}, lambda x: x.reshape(2, 3, 2, 2).transpose(0, 1, 3, 2).reshape(2, 6, 2)),
        ("... c -> c ...", {}, lambda x: x.transpose(2, 0, 1)),
        ("a ... -> (...) a", {}, lambda x: x.reshape(2, 12).T),
        ("a b c -> a 1 (c b) ()", {}, lambda x: x.transpose(0, 2, 1).reshape(2, 1, 12, 1)),
    ],
)
def test_rearrange_follows_its_formula(formula: str, sizes: dict[str, int], reference: Callable[[Any], Any]) -> None:
    """Axes are split, moved and merged as the formula says."""
    np.testing.assert_array_equal(values(Tensor(X).rearrange(formula, **sizes)), reference(X))


@pytest.mark.parametrize(
    ("formula", "sizes", "message"),
    [
        ("a b c", {}, "a formula is two lists of axes with -> between them, got 'a b c'"),
        ("a b -> b a", {}, "the left side of 'a b -> b a' is for 2 axes, and shape (2, 3, 4) has 3"),
        ("a b c -> a b", {}, "each axis must be once on both sides of the formula 'a b c -> a b'"),
        ("a b (c d) -> a b c d", {}, "the sizes of c and d in 'a b (c d) -> a b c d' are not known: give all but one"),
        ("a b (c d) -> a b c d", {"c": 3}, "axis 2 of (2, 3, 4) has 4 elements, which 'a b (c d) -> a b c d' does not"),
        ("a b c -> a b c", {"z": 3}, "the formula 'a b c -> a b c' has no axis z"),
        ("a b (c -> a b c", {}, "a parenthesis is not closed in the formula 'a b (c -> a b c'"),
        ("a b c? -> a b c", {}, "'?' has no meaning in the formula 'a b c? -> a b c'"),
    ],
)
def test_formulas_that_do_not_fit_raise(formula: str, sizes: dict[str, int], message: str) -> None:
    """A formula that is not one, or not one for this shape, raises ShapeError."""
    with pytest.raises(ShapeError, match=re.escape(message)):
        Tensor(X).rearrange(formula, **sizes)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda t, n: t.chunk(2), "chunk needs sizes that are known, this one is symbolic"),
        (lambda t, n: t.roll(1, 0), "roll needs sizes that are known"),
        (lambda t, n: t.unfold(0, 1, 1), "unfold needs sizes that are known"),
        (lambda t, n: t.split(2), "split needs a size that is known, axis 0 of"),
        (lambda t, n: t.argsort(0), "sort needs sizes that are known"),
        (lambda t, n: t[[0]], "a list as an index needs sizes that are known"),
        (lambda t, n: Tensor.ones(8)[:n:2], "a slice with symbolic bounds needs a step of 1, got 2 on axis 0"),
        (lambda t, n: t.gather(0, Tensor([[0]])), "an index tensor needs sizes that are known"),
        (lambda t, n: t.pad((1, 1, 1, 1), mode="reflect"), "pad needs sizes that are known"),
        (lambda t, n: Tensor.rand(n), "rand needs sizes that are known"),
    ],
)
def test_methods_that_need_known_sizes_say_so(method: Callable[[Tensor, UOp], Tensor], message: str) -> None:
    """Where a symbolic size cannot be handled the error says which method needs to know it."""
    n = UOp.variable("n", 1, 8).bind(3)
    with pytest.raises(ShapeError, match=re.escape(message)):
        method(Tensor(np.arange(16).reshape(8, 2))[:n], n)


def test_unfold_of_a_number() -> None:
    """A tensor without axes is one window of one element."""
    assert Tensor(3.0).unfold(0, 1, 1).tolist() == [3.0]
    with pytest.raises(ShapeError, match=r"windows of size 2 and step 1 do not fit"):
        Tensor(3.0).unfold(0, 2, 1)


def test_arguments_that_are_no_axes_and_no_tensors() -> None:
    """The error says what was given and what is needed; an integer tensor is an integer."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(DTypeError, match=r"an axis is an integer, got 'a' for shape \(2, 2\)"):
        t.sum("a")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="stack takes tensors, got 0; an axis is given by its name, as in dim=1"):
        Tensor.stack(t, 0)
    with pytest.raises(DTypeError, match="cat takes tensors, got 1; an axis is given by its name, as in dim=1"):
        Tensor.cat(t, 1)
    with pytest.raises(DTypeError, match="einsum multiplies tensors, got 3"):
        Tensor.einsum("ij", 3)
    assert t.sum(np.int64(1)).tolist() == [3.0, 7.0]
    assert t.narrow(0, Tensor(1), 1).tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize(("call", "said"), [
    (lambda x: x.narrow(0, 0.5, 1), "narrow needs an integer as its start, got 0.5"),
    (lambda x: x.narrow(0, 0, 1.0), "narrow needs an integer as its length, got 1.0"),
    (lambda x: x.unfold(1, 2.0, 1), "unfold needs an integer as its size, got 2.0"),
    (lambda x: x.unfold(1, 2, 1.0), "unfold needs an integer as its step, got 1.0"),
    (lambda x: x.chunk(1.5), "chunk needs an integer as the number of parts, got 1.5"),
    (lambda x: x.diagonal(0.5), "diagonal needs an integer as its offset, got 0.5"),
    (lambda x: x.diag_embed(0.5), "diag_embed needs an integer as its offset, got 0.5"),
    (lambda x: x.rot90(1.5), "rot90 needs an integer as k, got 1.5"),
    (lambda x: x.tensor_split(1.5), "tensor_split needs an integer as the number of sections, got 1.5"),
    (lambda x: x.tensor_split((1.5,)), "tensor_split needs an integer as an index, got 1.5"),
    (lambda x: x.tril(0.5), "tril needs an integer as its diagonal, got 0.5"),
    (lambda x: x.triu(0.5), "triu needs an integer as its diagonal, got 0.5"),
    (lambda x: x.topk(1.0), "topk needs an integer as k, got 1.0"),
    (lambda x: x.kthvalue(1.0), "kthvalue needs an integer as k, got 1.0"),
    (lambda x: x.diff(1.0), "diff needs an integer as n, got 1.0"),
    (lambda x: x.vander(2.0), "vander needs an integer as N, got 2.0"),
    (lambda x: x.shrink(((0, 1.5), None)), "shrink needs integers, got (0, 1.5)"),
    (lambda x: x.max_pool2d(2.5), "kernel_size needs integers, got 2.5"),
    (lambda x: x.avg_pool2d(2, stride=(1, 1.0)), "stride needs integers, got (1, 1.0)"),
    (lambda x: x[None, None].conv2d(x[None, None], padding=0.5), "padding needs integers, got 0.5"),
    (lambda x: x[None, None].conv2d(x[None, None], dilation="2"), "dilation needs integers, got '2'"),
    (lambda x: x[None, None].adaptive_avg_pool2d((2.0, None)), "needs an integer as its output_size, got 2.0"),
    (lambda x: x[None, None].interpolate((3.5, 4)), "the size of interpolate needs integers, got (3.5, 4)"),
    (lambda x: x.group_norm(2.0), "group_norm needs an integer as num_groups, got 2.0"),
    (lambda x: x[None].pixel_shuffle(1.5), "pixel_shuffle needs an integer as upscale_factor, got 1.5"),
    (lambda x: x[None].pixel_unshuffle(2.0), "pixel_unshuffle needs an integer as downscale_factor, got 2.0"),
    (lambda _: Tensor.manual_seed(1.5), "manual_seed needs an integer as its seed, got 1.5"),
    (lambda _: nn.Conv2d(1, 2, 3.5), "kernel_size needs integers, got 3.5"),
    (lambda _: nn.LayerNorm(2.5), "normalized_shape needs integers, got 2.5"),
    (lambda _: nn.GroupNorm(2.0, 4), "GroupNorm needs an integer as num_groups, got 2.0"),
    (lambda _: nn.MultiheadAttention(4, 2.0), "MultiheadAttention needs an integer as num_heads, got 2.0"),
    (lambda _: nn.LSTM(2, 3, 1.5), "LSTM needs integers, got (2, 3, 1.5)"),
])  # fmt: skip
def test_a_float_is_no_number_of_elements(call: Callable[[Tensor], object], said: str) -> None:
    """Floats are refused where integers are due, also whole ones; integers of NumPy and scalars are taken."""
    with pytest.raises(DTypeError, match=re.escape(said)):
        call(Tensor.arange(12).reshape(3, 4))


def test_integers_of_others_are_taken() -> None:
    """One of NumPy's, and a tensor of one."""
    x = Tensor.arange(12).reshape(3, 4)
    assert x.narrow(0, np.int64(1), Tensor(1)).tolist() == [[4, 5, 6, 7]]
    assert x.tril(np.int32(-2)).sum().item() == 8
    assert [part.shape for part in x.tensor_split(np.int8(2), 1)] == [(3, 2), (3, 2)]
    assert x[None, None].max_pool2d(np.int64(2), np.int8(1)).shape == (1, 1, 2, 3)
    assert x[None, None].conv2d(x[None, None], padding=np.array([1, 0])).shape == (1, 1, 3, 1)
    assert nn.Conv2d(1, 2, np.int32(3)).kernel_size == (3, 3)


def test_movedim_names_itself() -> None:
    """An axis moved twice is its error, not that of what it is made of."""
    with pytest.raises(ShapeError, match=r"movedim moves each axis once, got \(0, 0\) and \(0, 1\) for shape"):
        Tensor.ones(2, 3).movedim((0, 0), (0, 1))
