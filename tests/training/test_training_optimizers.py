"""20 steps of every optimizer are those of PyTorch, whose gradients fuse into the update or not.

Float64 is held to 1e-10 of a parameter's greatest magnitude, float32 to 1e-4. Bfloat16 has a file of its own,
test_training_rounded.py. What is not marked slow takes all losses in one graph.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from optimizer_cases import (
    ALL,
    CASES,
    LOSSES,
    RATE,
    RATES,
    STEPS,
    Case,
    D,
    check,
    data,
    ours,
    start,
    stepping,
    theirs,
    torch,
)
from tinygraft import Tensor, dtypes, nn
from tinygraft.errors import DTypeError, ShapeError

CONSTANT = [RATE] * STEPS
EXACT, SINGLE = 1e-10, 1e-4
by_case = pytest.mark.parametrize("case", CASES, ids=str)
SQUARES = ("RMSprop", "Adagrad", "Adadelta", "Lion")
VARIANTS = ("NAdam", "RAdam", "Adamax")
AS_PYTORCH = ("amsgrad", "maximize", "dampening")  # options whose meaning is PyTorch's
MATRIX = [c for c in CASES if c.name not in SQUARES or c.options]  # their plain forms are in test_training_rounded.py
NEW = [
    c for c in CASES
    if (c.name in SQUARES and c.options) or c.name in VARIANTS or not c.options.keys().isdisjoint(AS_PYTORCH)
]  # fmt: skip
FEW = [c for c in CASES if str(c) in ("SGD momentum=0.9 weight_decay=0.1 nesterov=True", "AdamW", "LARS", "Muon")]


def split(t: Tensor) -> Any:
    """On two devices, each with its half."""
    return t.shard_(D, axis=0)


def copied(t: Tensor) -> Any:
    """On two devices, each with all of it."""
    return t.shard_(D)


PLACES = {"replicated": copied, "split": split}


@cache
def expected(case: str, loss: str, changing: bool) -> Any:
    """theirs, once for each."""
    chosen = next(c for c in CASES if str(c) == case)
    return theirs(chosen, ALL if loss == "all" else LOSSES[loss], RATES if changing else CONSTANT)


@by_case
def test_rules_are_pytorchs(case: Case) -> None:
    """The rules of the papers give what torch.optim gives, where it has the optimizer."""
    if case.torch is not None:
        check(theirs(case, ALL, RATES, by_rule=True), theirs(case, ALL, RATES), 1e-13)


def test_nadam_is_pytorchs_whose_product_of_momenta_is_float32() -> None:
    """The rule that NAdam is held to above, beside PyTorch's: float32 has 6e-8 of that product."""
    case = next(c for c in CASES if c.name == "NAdam" and len(c.options) == 3)
    like = Case(case.name, case.options, case.rule, torch.optim.NAdam, case.options)
    check(theirs(like, ALL, RATES, by_rule=True), theirs(like, ALL, RATES), 1e-7)


@pytest.mark.parametrize("case", [*FEW, *NEW, *(case for case in CASES if str(case) in ("Adam", "LAMB"))], ids=str)
def test_all_losses_at_once(case: Case) -> None:
    """Float64, one graph for all losses, lr assigned after the tenth step; the other cases are in the whole matrix."""
    check(ours(case, ALL, RATES), expected(str(case), "all", True), EXACT)


@pytest.mark.parametrize("loss", LOSSES)
def test_momentum_of_one_loss(loss: str) -> None:
    """Float64, a graph of its own."""
    case = next(c for c in CASES if str(c) == "SGD momentum=0.9 weight_decay=0.1")
    check(ours(case, LOSSES[loss], CONSTANT), expected(str(case), loss, False), EXACT)


@pytest.mark.parametrize("loss", ["cube", "layers"])
def test_adam_of_one_loss(loss: str) -> None:
    """Float64, a graph of its own, replayed."""
    case = next(c for c in CASES if str(c) == "Adam")
    check(ours(case, LOSSES[loss], RATES, jit=True), expected(str(case), loss, True), EXACT)


@pytest.mark.parametrize("case", [*FEW, *NEW], ids=str)
def test_all_losses_at_once_in_float32(case: Case) -> None:
    """Float32 and replayed."""
    check(ours(case, ALL, RATES, dtypes.float32, jit=True), expected(str(case), "all", True), SINGLE)


@pytest.mark.parametrize("place", PLACES)
def test_two_devices(place: str) -> None:
    """Float64, on two devices."""
    case = next(c for c in CASES if str(c) == "SGD momentum=0.9 weight_decay=0.1")
    check(ours(case, LOSSES["layers"], RATES, place=PLACES[place]), expected(str(case), "layers", True), EXACT)


# The whole matrix


def quartered(row: int, column: int, jit: bool) -> Any:
    """The mark of a cell of a table with two sides, eager and replayed: the gate has half of the cells, on one side."""
    return [] if (row + column) % 4 == 2 * jit else pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize(("case", "loss", "jit"), [
    pytest.param(case, loss, jit, id=f"{case}-{loss}-{'replayed' if jit else 'eager'}",
                 marks=quartered(row, column, jit))
    for row, case in enumerate(MATRIX) for column, loss in enumerate(LOSSES) for jit in (False, True)
])  # fmt: skip
def test_each_loss(case: Case, loss: str, jit: bool) -> None:
    """Float64, a graph for each loss; lr as a number, and assigned."""
    for rates in (CONSTANT, RATES):
        check(ours(case, LOSSES[loss], rates, jit=jit), expected(str(case), loss, rates is RATES), EXACT)


def is_long(row: int, case: Case, place: str, jit: bool) -> bool:
    """Two devices, but for a few optimizers whose steps are replayed; on one device three of four cases of a side."""
    return row % 4 != 2 * jit if place == "one" else not (case in FEW and jit)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "place", "jit"), [
    pytest.param(case, place, jit, id=f"{case}-{place}-{'replayed' if jit else 'eager'}",
                 marks=pytest.mark.long if is_long(row, case, place, jit) else [])
    for row, case in enumerate(MATRIX) for place in ("one", *PLACES) for jit in (False, True)
])  # fmt: skip
def test_each_place_and_dtype(case: Case, place: str, jit: bool) -> None:
    """Float64 and float32, all losses in one graph, on one device and two."""
    for dtype, relative in ((dtypes.float64, EXACT), (dtypes.float32, SINGLE)):
        found = ours(case, ALL, RATES, dtype, jit, PLACES.get(place))
        check(found, expected(str(case), "all", True), relative)


# Several optimizers, and what lr may be


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "replayed"])
def test_a_group(jit: bool) -> None:
    """Two optimizers of an OptimizerGroup, with rates of their own, go where each of PyTorch's goes."""
    loss = LOSSES["layers"]
    params, x = start(loss)
    decayed = nn.optim.SGD(params[::2], lr=RATE, momentum=0.9, weight_decay=0.1)
    step = stepping([decayed, nn.optim.Adam(params[1::2], lr=RATE / 2)], loss, params, jit)
    its = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in loss.start()]
    both: list[Any] = [torch.optim.SGD(its[::2], lr=RATE, momentum=0.9, weight_decay=0.1),
                       torch.optim.Adam(its[1::2], lr=RATE / 2)]  # fmt: skip
    found, wanted = [], []
    for _ in range(STEPS):
        step(x)
        found.append([p.numpy() for p in params])
        for one in both:
            one.zero_grad()
        loss.of(its, torch.tensor(data())).backward()
        for one in both:
            one.step()
        wanted.append([p.detach().numpy().copy() for p in its])
    check(found, wanted, EXACT)


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_lr_may_be_a_tensor(shape: tuple[int, ...]) -> None:
    """The tensor given is the rate: assigned to, from the next step on it is another."""
    case = next(c for c in CASES if str(c) == "SGD")
    for jit in (False, True):
        lr = Tensor(np.full(shape, RATE))
        found = ours(case, LOSSES["layer"], RATES, jit=jit, lr=lr)
        assert lr.item() == RATES[-1]
        check(found, expected("SGD", "layer", True), EXACT)


def test_lr_is_as_exact_as_the_parameters() -> None:
    """Of float64 where a parameter is, else of float32; so is the number of Adam's step."""
    for dtype, wanted in ((dtypes.float64, dtypes.float64), (dtypes.float32, dtypes.float32),
                          (dtypes.bfloat16, dtypes.float32)):  # fmt: skip
        adam = nn.optim.Adam([Tensor([1.0], dtype=dtype)], lr=0.1)
        assert (adam.lr.dtype, adam.t.dtype, adam.m[0].dtype) == (wanted, wanted, dtype)


def test_a_wrong_lr_is_refused() -> None:
    """A tensor of several numbers, and one of integers."""
    with pytest.raises(
        ShapeError, match=r"lr is a number or a tensor of one, of shape \(\) or \(1,\); got shape \(2,\)"
    ):
        nn.optim.SGD([Tensor([1.0])], lr=Tensor([0.1, 0.2]))
    with pytest.raises(DTypeError, match=r"lr is a number or a tensor of floats, got dtypes.int"):
        nn.optim.SGD([Tensor([1.0])], lr=Tensor([1]))


@pytest.mark.parametrize("name", ["SGD", "LARS", "Adam", "AdamW", "LAMB", "Muon", *SQUARES, *VARIANTS])
def test_a_parameter_without_axes(name: str) -> None:
    """One number is trained like a line of one."""
    case = next(c for c in CASES if c.name == name)
    found = []
    for shape in ((), (1,)):
        p = Tensor(np.full(shape, 1.5))
        optimizer = case.make([p])
        for _ in range(3):
            with Tensor.train():
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
        assert p.shape == shape
        found.append(p.numpy().reshape(-1).tolist())
    assert found[0] == found[1] != [1.5]
