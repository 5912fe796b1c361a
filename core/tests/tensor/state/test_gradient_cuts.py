"""backward of a result that no gradient goes on from: an error that names what cut it; steps give zeros, as PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit
from tinygraft.errors import DTypeError, GraphError

CUTS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "argmax": (lambda w: w.argmax().float(), "argmax"),
    "argmin of rows": (lambda w: w.reshape(3, 1).argmin(axis=0).float().sum(), "argmin"),
    "comparison": (lambda w: (w > 0).sum().float(), "a comparison"),
    "comparison beside numbers": (lambda w: ((w > 0).float() * Tensor([1.0, 2.0, 3.0])).sum(), "a comparison"),
    "cast": (lambda w: w.int().sum().float(), "a cast to int"),
    "argsort": (lambda w: w.argsort().float().sum(), "the indices of sort"),
    "topk": (lambda w: w.topk(2)[1].float().sum(), "the indices of topk"),
    "multinomial": (lambda w: w.abs().multinomial(1).float().sum(), "multinomial"),
    "bucketize": (lambda w: w.bucketize(Tensor([0.0], requires_grad=False)).float().sum(), "bucketize"),
    "searchsorted": (lambda w: Tensor([0, 1]).searchsorted(w).float().sum(), "searchsorted"),
    "two": (lambda w: (w.argmax() + w.int().sum()).float(), "argmax and a cast to int"),
}


@pytest.mark.parametrize("flag", [True, None])
@pytest.mark.parametrize("realised", ["nothing", "w", "result"])
@pytest.mark.parametrize("name", CUTS)
def test_what_cut_the_gradient_is_named(name: str, realised: str, flag: bool | None) -> None:
    """PyTorch: element 0 of tensors does not require grad. Nothing gets a .grad, the result neither."""
    function, cut = CUTS[name]
    if name == "comparison beside numbers" and flag is None:
        pytest.skip("the numbers have the flag None too: they get a gradient")
    w = Tensor([1.0, 2.0, -3.0], requires_grad=flag)
    if realised == "w":
        w.realize()
    result = function(w)
    if realised == "result":
        result.realize()
    with pytest.raises(GraphError) as caught:
        result.backward()
    lines = str(caught.value).split("\n")
    if realised == "result" and ("indices of" in cut or name in ("bucketize", "searchsorted")):
        # the indices are in memory: what they are from is not known
        assert lines[0].startswith("backward found no tensor to give a gradient to: the result of shape () depends on")
        return
    assert lines[0] == (
        f"backward found no tensor to give a gradient to: no gradient of the result of shape () passes {cut}"
    )
    assert lines[1].startswith("  made at ") and "test_gradient_cuts.py" in lines[1]
    assert lines[2].startswith("  hint: ")
    assert w.grad is None and result.grad is None


INTEGERS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "argmax": (lambda w: w.argmax(), "argmax"),
    "comparison": (lambda w: (w > 0).sum(), "a comparison"),
    "bools": (lambda w: (w > 0).any(), "a comparison"),
    "cast": (lambda w: (w.int() * 2).sum(), "a cast to int"),
    "indices": (lambda w: w.argsort()[0], "the indices of sort"),
    "multinomial": (lambda w: w.abs().multinomial(1), "multinomial"),
    "two": (lambda w: w.argmax() + w.int().sum(), "argmax and a cast to int"),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_what_made_a_loss_integers_is_named(name: str) -> None:
    """Of backward and of gradient; integers that were given are not."""
    function, by = INTEGERS[name]
    w = Tensor([1.0, 2.0, -3.0], requires_grad=True)
    for ask in (lambda loss: loss.backward(), lambda loss: loss.gradient(w)):
        with pytest.raises(DTypeError) as caught:
            ask(function(w))
        lines = str(caught.value).split("\n")
        assert "needs a tensor of floats, this one is dtypes." in lines[0] and lines[1].startswith("  made at ")
        assert lines[2:] == [f"  hint: {by} made it of floats, and passes no gradient"]
    with pytest.raises(DTypeError) as caught:
        Tensor([1, 2]).sum().backward()
    assert "hint" not in str(caught.value)


def test_detach_is_named() -> None:
    """As where there is nothing else."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    for result in (w.detach().sum(), (w.detach() * 2).sum()):
        with pytest.raises(
            GraphError, match=r"no gradient of the result .* passes detach\(\) or no_grad\(\)\n  made at"
        ):
            result.backward()


@pytest.mark.parametrize("flag", [True, None])
@pytest.mark.parametrize("name", CUTS)
def test_a_value_between_is_no_leaf(name: str, flag: bool | None) -> None:
    """It is live and of floats, and got the gradient in place of what it was computed from."""
    if name == "comparison beside numbers":
        pytest.skip("the numbers have the flag None too: they get a gradient")
    function, cut = CUTS[name]
    w = Tensor([1.0, 2.0, -3.0], requires_grad=flag)
    between = function(w) * 1.5
    with pytest.raises(GraphError, match=f"no gradient of the result of shape .* passes {cut}\n"):
        (between * between).sum().backward()
    assert between.grad is None
    leaf = between.detach().requires_grad_()
    (leaf * between).sum().backward()
    assert leaf.grad is not None and leaf.grad.item() == between.item()


@pytest.mark.parametrize("flag", [True, None])
def test_a_gradient_that_is_a_constant_has_none_itself(flag: bool | None) -> None:
    """That of a sum: the second derivative is 0 everywhere. PyTorch: element 0 of tensors does not require grad."""
    w = Tensor([1.0, 2.0], requires_grad=flag)
    said = "^backward found no tensor to give a gradient to: the result of shape .* depends on none that is live"
    for result in (w.sum().gradient(w)[0].sum(), (w * 3).sum().gradient(w)[0].sum() * 2, Tensor([1, 2]).float().sum()):
        with pytest.raises(GraphError, match=said):
            result.backward()
    assert w.grad is None
    (w * w).sum().gradient(w)[0].sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("realised", [False, True])
@pytest.mark.parametrize("flag", [True, None])
def test_a_result_that_is_a_leaf_gets_1(flag: bool | None, realised: bool) -> None:
    """Its own gradient, of each way to make a leaf."""
    made = [Tensor(2.0, requires_grad=flag), Tensor([2.0], requires_grad=flag), Tensor.rand(1, requires_grad=flag),
            Tensor.full((), 3.0, requires_grad=flag)]  # fmt: skip
    if flag:
        made += [Tensor.ones(1).requires_grad_(), Tensor([1, 2]).sum().float().requires_grad_()]
        w = Tensor([1.0, 2.0], requires_grad=True)
        made += [w.sum().detach().requires_grad_(), (w > 0).sum().float().detach().requires_grad_()]
    for leaf in made:
        if realised:
            leaf.realize()
        leaf.backward()
        assert leaf.grad is not None
        assert leaf.grad.item() == 1.0


def test_leaves_that_are_gone_are_no_error() -> None:
    """Nobody can ask for their gradient; the path to them is there."""
    Tensor([2.0], requires_grad=True).sum().backward()
    (Tensor([2.0]) * 3).sum().backward()


def test_one_path_is_enough() -> None:
    """What is cut beside it counts nothing."""
    w, v = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    ((w > 1).float() * v).sum().backward()
    assert v.grad is not None and v.grad.tolist() == [0.0, 1.0]
    assert w.grad is None


def test_a_captured_step_says_it_too() -> None:
    """In the first call, which runs the function."""

    @TinyJit
    def step(w: Tensor) -> Tensor:
        return w.argmax().float().backward().realize()

    with pytest.raises(GraphError, match="passes argmax"):
        step(Tensor([1.0, 2.0], requires_grad=True).realize())


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "round": lambda x: x.round(),
    "round to digits": lambda x: x.round(1),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "trunc": lambda x: x.trunc(),
    "sign": lambda x: x.sign(),
    "floor_divide": lambda x: x // 0.3,
    "a step of a computed value": lambda x: (x * 2).round() * 3,
    "grid_sample": lambda x: Tensor.ones(1, 1, 4, 4).grid_sample(x.reshape(1, 1, 2, 2), "nearest"),
}


@pytest.mark.parametrize("flag", [True, None])
@pytest.mark.parametrize("realised", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_a_gradient_of_0(name: str, realised: bool, flag: bool | None) -> None:
    """As in PyTorch, where .grad is zeros; a value between is no leaf, nor is the result."""
    if name == "grid_sample" and flag is None:
        pytest.skip("its coordinates have a gradient where they require one")
    x = Tensor([-1.4, 0.0, 0.3, 2.6], requires_grad=flag)
    between = STEPS[name](x)
    if realised:
        between.realize()
    result = between.sum()
    result.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0] * 4
    assert between.grad is None
    assert result.grad is None
    (result + (x * x).sum()).backward()
    assert x.grad.tolist() == pytest.approx([-2.8, 0.0, 0.6, 5.2])


def test_what_is_detached_behind_a_step_has_no_gradient() -> None:
    """A step is no way around it."""
    x, y = Tensor([1.5], requires_grad=True), Tensor([2.5], requires_grad=True)
    (x.detach().round() * y.round()).sum().backward()
    assert x.grad is None
    assert y.grad is not None and y.grad.tolist() == [0.0]


@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("mask", [lambda w: (w > 0).float(), lambda w: w.argmax().float(), lambda w: w.int().float()])
def test_what_is_cut_off_becomes_a_leaf(mask: Callable[[Tensor], Tensor], realized: bool) -> None:
    """A mask of a weight has a gradient of its own once it is to require one, beside that of the weight."""
    w = Tensor([1.0, -2.0, 3.0], requires_grad=True)
    leaf = mask(w)
    if realized:
        leaf.realize()
    leaf.requires_grad_()
    (leaf * 2 * w.sum()).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == (np.zeros(leaf.shape) + 4).tolist()
    assert w.grad is not None and w.grad.tolist() == (2 * leaf.sum() * Tensor.ones(3)).tolist()


def test_what_is_drawn_stays_what_it_is() -> None:
    """Asking it twice for a gradient makes no second leaf: what was computed before has its gradient."""
    w = Tensor.rand(3, requires_grad=True)
    loss = (w * 2).sum()
    w.requires_grad_()
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 2.0, 2.0]
