"""nn.optim: five steps of each optimizer equal its formula in numpy float64, and mistakes are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, nn
from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError, TrainingError

torch = pytest.importorskip("torch")

SHAPE, STEPS = (3, 4), 5
Rule = Callable[[Any, Any, dict[str, Any], int], Any]


def start() -> Any:
    """The parameter's first value."""
    return np.random.RandomState(0).standard_normal(SHAPE).astype(np.float32)


def gradients() -> Iterator[Any]:
    """A gradient for each step."""
    random = np.random.RandomState(1)
    return (random.standard_normal(SHAPE).astype(np.float32) for _ in range(STEPS))


def trained(make: Callable[[list[Tensor]], nn.optim.Optimizer]) -> Any:
    """The parameter after five steps with our optimizer; the loss is sum(p * g), whose gradient is g."""
    p = Tensor(start())
    optimizer = make([p])
    with Tensor.train():
        for gradient in gradients():
            optimizer.zero_grad()
            (p * Tensor(gradient)).sum().backward()
            optimizer.step()
    return p.numpy()


def expected(rule: Rule) -> Any:
    """The parameter after five steps with a rule (p, g, state, step from 1) -> p."""
    p, state = start().astype(np.float64), {"m": np.zeros(SHAPE), "v": np.zeros(SHAPE)}
    for step, gradient in enumerate(gradients(), 1):
        p = rule(p, gradient.astype(np.float64), state, step)
    return p


def norm(x: Any) -> float:
    """The Euclidean length of all of x."""
    return float(np.sqrt((x * x).sum()))


def momentum_rule(lr: float, mu: float, wd: float, nesterov: bool) -> Rule:
    """Sutskever's momentum as PyTorch has it."""

    def rule(p: Any, g: Any, state: dict[str, Any], step: int) -> Any:
        g = g + wd * p
        state["m"] = mu * state["m"] + g
        return p - lr * (g + mu * state["m"] if nesterov else state["m"])

    return rule


def adam_rule(lr: float, eps: float, wd: float, lamb: bool = False) -> Rule:
    """Algorithm 1 of the Adam paper, with decoupled weight decay, and LAMB's trust ratio if asked."""

    def rule(p: Any, g: Any, state: dict[str, Any], step: int) -> Any:
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.999 * state["v"] + 0.001 * g * g
        update = state["m"] / (1 - 0.9**step) / (np.sqrt(state["v"] / (1 - 0.999**step)) + eps) + wd * p
        return p - lr * update * (norm(p) / norm(update) if lamb else 1)

    return rule


def lars_rule(p: Any, g: Any, state: dict[str, Any], step: int) -> Any:
    """Algorithm 1 of the LARS paper."""
    rate = 0.1 * 0.001 * norm(p) / (norm(g) + 1e-4 * norm(p))
    state["m"] = 0.9 * state["m"] + rate * (g + 1e-4 * p)
    return p - state["m"]


def lion_rule(p: Any, g: Any, state: dict[str, Any], step: int) -> Any:
    """Algorithm 2 of the Lion paper."""
    update = np.sign(0.9 * state["m"] + 0.1 * g) + 0.1 * p
    state["m"] = 0.99 * state["m"] + 0.01 * g
    return p - 0.1 * update


def muon_rule(p: Any, g: Any, state: dict[str, Any], step: int) -> Any:
    """Muon: the momentum, one step ahead, through five Newton-Schulz steps."""
    state["m"] = 0.95 * state["m"] + g
    x = g + 0.95 * state["m"]
    x = x / norm(x)
    for _ in range(5):
        x = 3.4445 * x + (-4.775 * (x @ x.T) + 2.0315 * (x @ x.T) @ (x @ x.T)) @ x
    return p * (1 - 0.1 * 0.1) - 0.1 * x


CASES: dict[str, tuple[Callable[[list[Tensor]], nn.optim.Optimizer], Rule]] = {
    "sgd": (lambda p: nn.optim.SGD(p, lr=0.1), momentum_rule(0.1, 0, 0, False)),
    "sgd, decay": (lambda p: nn.optim.SGD(p, lr=0.1, weight_decay=0.2), momentum_rule(0.1, 0, 0.2, False)),
    "momentum": (lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9), momentum_rule(0.1, 0.9, 0, False)),
    "classic": (lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, classic=True), momentum_rule(0.1, 0.9, 0, False)),
    "nesterov": (
        lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.2, nesterov=True),
        momentum_rule(0.1, 0.9, 0.2, True),
    ),
    "adam": (lambda p: nn.optim.Adam(p, lr=0.1), adam_rule(0.1, 1e-8, 0)),
    "adamw": (lambda p: nn.optim.AdamW(p, lr=0.1), adam_rule(0.1, 1e-8, 0.01)),
    "lamb": (lambda p: nn.optim.LAMB(p, lr=0.1, weight_decay=0.1), adam_rule(0.1, 1e-6, 0.1, lamb=True)),
    "muon": (lambda p: nn.optim.Muon(p, lr=0.1), muon_rule),
    "lars": (lambda p: nn.optim.LARS(p, lr=0.1), lars_rule),
    "lion": (lambda p: nn.optim.Lion(p, lr=0.1, weight_decay=0.1), lion_rule),
}


@pytest.mark.parametrize("case", CASES)
def test_five_steps(case: str) -> None:
    """The parameter is where the formula leads."""
    make, rule = CASES[case]
    np.testing.assert_allclose(trained(make), expected(rule), rtol=2e-5, atol=2e-6)


def test_muon_makes_steps_orthogonal() -> None:
    """The step has singular values near 1, for a tall matrix, a wide one, and a vector."""
    for shape in ((6, 3), (3, 2, 4), (5,)):
        p = Tensor(np.zeros(shape, np.float32))
        optimizer = nn.optim.Muon([p], lr=1.0)
        p.grad = Tensor(np.random.RandomState(0).standard_normal(shape).astype(np.float32))
        with Tensor.train():
            optimizer.step()
        singular = np.linalg.svd(p.numpy().reshape(shape[0], -1), compute_uv=False)
        assert np.all((singular > 0.6) & (singular < 1.3))


def test_lr_is_a_tensor_that_can_be_assigned() -> None:
    """A new lr holds from the next step on."""
    p = Tensor([1.0])
    optimizer = nn.optim.SGD([p], lr=0.5)
    assert (optimizer.lr.shape, optimizer.lr.device) == ((1,), p.device)
    with Tensor.train():
        for lr, value in ((0.5, 0.5), (0.25, 0.25)):
            optimizer.lr.assign(Tensor([lr]))
            optimizer.zero_grad()
            p.sum().backward()
            optimizer.step()
            assert p.item() == value


def test_a_held_gradient_stays_readable() -> None:
    """The step realises the gradients too: reading .grad afterwards launches nothing."""
    p = Tensor([1.0, 2.0])
    optimizer = nn.optim.Adam([p])
    with Tensor.train():
        (p * p).sum().backward()
        optimizer.step()
    before = GlobalCounters.kernel_count
    assert p.grad is not None
    assert p.grad.tolist() == [2.0, 4.0]
    assert GlobalCounters.kernel_count == before


def test_an_update_is_one_kernel() -> None:
    """Adam's update of one tensor is one kernel (beside the two powers), and the second step compiles nothing."""
    launched = []
    for count in (1, 3):
        params = [Tensor(np.ones((30, 4 + place), np.float32)) for place in range(count)]
        gradients = [(p * 0.5).realize() for p in params]
        optimizer = nn.optim.Adam(params)
        with Tensor.train():
            for step in range(3):
                for p, gradient in zip(params, gradients, strict=True):
                    p.grad = gradient
                before, compiled = GlobalCounters.kernel_count, GlobalCounters.kernels_compiled
                optimizer.step()
                assert step == 0 or GlobalCounters.kernels_compiled == compiled
        launched.append(GlobalCounters.kernel_count - before)
    assert launched[0] <= 3
    assert launched[1] - launched[0] == 2


def test_the_number_of_the_step_advances_in_a_replay() -> None:
    """A captured step is not frozen in time: 6 jitted steps equal 6 plain ones."""
    results = []
    for wrap in (TinyJit, lambda function: function):
        p = Tensor(start())
        optimizer = nn.optim.Adam([p], lr=0.1)

        def step(p: Tensor = p, optimizer: nn.optim.Optimizer = optimizer) -> Tensor:
            with Tensor.train():
                optimizer.zero_grad()
                loss = (p * p).sum().backward()
                return loss.realize(*optimizer.schedule_step())

        jitted = wrap(step)
        for _ in range(6):
            jitted()
        results.append((p.numpy(), optimizer.t.item()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1] == 6.0


def test_parameters_are_taken_once_and_flagged() -> None:
    """Doubles go, buffers and integers are kept apart, requires_grad is set, what is False stays so."""
    weight, frozen, count = Tensor([1.0]), Tensor([2.0], requires_grad=False), Tensor([3])
    optimizer = nn.optim.SGD([weight, frozen, weight, count])
    assert [id(t) for t in optimizer.params] == [id(weight)]
    assert [id(t) for t in optimizer.buffers] == [id(frozen), id(count)]
    assert (weight.requires_grad, frozen.requires_grad) == (True, False)


def test_equal_parameters_are_not_one() -> None:
    """Two tensors of ones are one node; as parameters each has memory and a gradient of its own."""
    made = Tensor([5.0])
    a, b, c, d = Tensor.ones(1), Tensor.ones(1), Tensor(made.uop), Tensor(made.uop)
    optimizer = nn.optim.SGD([a, b, c, d], lr=1.0)
    with Tensor.train():
        for _ in range(2):
            optimizer.zero_grad()
            (a * 1 + b * 2 + c * 3 + d * 4).sum().backward()
            optimizer.step()
    assert [t.item() for t in (a, b, c, d, made)] == [-1.0, -3.0, -1.0, -3.0, 5.0]


def step(optimizer: nn.optim.Optimizer, loss: Tensor) -> None:
    """One step by the gradient of a loss."""
    with Tensor.train():
        loss.backward()
        optimizer.step()


def test_a_view_as_a_parameter_trains_its_base_s_memory() -> None:
    """A part alone, parts beside each other, one whose base is an expression; as PyTorch does."""
    whole = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    part = whole[:2]
    step(nn.optim.SGD([part], lr=1.0), (part * part).sum())
    assert (whole.tolist(), part.tolist()) == ([-1.0, -2.0, 3.0, 4.0], [-1.0, -2.0])
    square = (Tensor([[1.0, 2.0], [3.0, 4.0]]).realize() * 1).realize()
    left, right = square.chunk(2, dim=1)
    step(nn.optim.SGD([left, right], lr=1.0), (left * right).sum())
    assert square.tolist() == [[-1.0, 1.0], [-1.0, 1.0]]
    theirs = torch.tensor([2.0, 4.0, 6.0])
    ours, views = Tensor([1.0, 2.0, 3.0]).realize() * 2, theirs[1:].requires_grad_()
    mine = ours[1:]
    adam, their_adam = nn.optim.Adam([mine], lr=0.5), torch.optim.Adam([views], lr=0.5)
    for _ in range(3):
        adam.zero_grad()
        their_adam.zero_grad()
        step(adam, (mine * mine).sum())
        (views * views).sum().backward()
        their_adam.step()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_tied_weights_are_one_parameter() -> None:
    """One tensor that two layers have; what a layer computes from a view of it reaches it."""
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    optimizer = nn.optim.SGD([*nn.state.get_parameters(first), *nn.state.get_parameters(second)], lr=1.0)
    assert len(optimizer.params) == 1
    before = first.weight.numpy()
    step(optimizer, second.weight.T.sum() + first.weight[0].sum())
    assert second.weight.tolist() == (before - np.array([[2, 2], [1, 1]], np.float32)).tolist()


def test_parameters_that_share_memory_are_refused() -> None:
    """A tensor and a view of it, and two views that meet, in one optimizer or in a group."""
    w = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    with pytest.raises(
        TrainingError,
        match=r"^parameter 1 of 2, shape \(3, 2\), has memory in common with parameter 0, shape \(2, 3\): each step wou"
        r"ld write both of them there\n  made at .*optimizer.py:\d+      the other one made at .*\n  hint: give the op"
        r"timizer one of them; a model takes the view where it is used, as in x @ self.weight.T, and does not keep it$",
    ):
        nn.optim.SGD([w, w.T])
    with pytest.raises(TrainingError, match=r"parameter 2 of 3, shape \(2, 2\), has memory in common with parameter 0"):
        nn.optim.SGD([w[:, :2], Tensor([1.0]), w[:, 1:]])
    part = w[1]
    with pytest.raises(TrainingError, match=r"parameter 1 of 2, shape \(2, 3\), has memory in common"):
        nn.optim.OptimizerGroup(nn.optim.SGD([part]), nn.optim.SGD([w]))
    w = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    nn.optim.SGD([w[:1], w[1:, ::2], w[1:, 1:2], w[:0]])


def test_a_view_of_what_requires_a_gradient_is_refused() -> None:
    """It is an intermediate result, as in PyTorch."""
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    part = w[:2]
    with pytest.raises(
        TrainingError,
        match=r"^parameter 0 of 1, shape \(2,\), is a view of a tensor of shape \(3,\) that requires a gradient itself"
        r", and gets the gradient\n  made at .*\n  hint: give the optimizer that tensor$",
    ):
        nn.optim.SGD([part])
    mine = w.detach()[:2].requires_grad_()
    step(nn.optim.SGD([mine], lr=1.0), (mine * mine).sum())
    assert w.tolist() == [-1.0, -2.0, 3.0]


def test_zero_grad_forgets() -> None:
    """After zero_grad there is no gradient."""
    p = Tensor([1.0])
    optimizer = nn.optim.SGD([p])
    p.sum().backward()
    optimizer.zero_grad()
    assert p.grad is None


def test_a_group_steps_as_one() -> None:
    """Each optimizer of a group does its own."""
    a, b = Tensor([1.0]), Tensor([1.0])
    group = nn.optim.OptimizerGroup(nn.optim.SGD([a], lr=0.5), nn.optim.SGD([b], lr=0.25))
    with Tensor.train():
        for _ in range(2):
            group.zero_grad()
            (a + b).sum().backward()
            group.step()
    assert (a.item(), b.item()) == (0.0, 0.5)


def test_half_parameters_stay_half() -> None:
    """State and update have the parameter's dtype."""
    p = Tensor(start()).half()
    optimizer = nn.optim.Adam([p], lr=0.1, eps=1e-4)
    with Tensor.train():
        p.sum().backward()
        optimizer.step()
    assert {t.dtype for t in (p, *optimizer.m, *optimizer.v)} == {dtypes.float16}
    np.testing.assert_allclose(p.numpy(), start().astype(np.float16) - 0.1, atol=5e-3)


def test_nothing_to_train() -> None:
    """An optimizer without parameters says what it got."""
    with pytest.raises(
        TrainingError, match=r"^the optimizer got 1 tensor and none to train; it needs tensors of floats"
    ):
        nn.optim.Adam([Tensor([1.0], requires_grad=False)])


def test_a_missing_gradient_is_named() -> None:
    """The error says which parameter, its shape and where it was made; nothing has stepped."""
    used, unused = Tensor([1.0]), Tensor([[1.0, 2.0]])
    optimizer = nn.optim.SGD([used, unused])
    used.sum().backward()
    with Tensor.train(), pytest.raises(TrainingError) as caught:
        optimizer.step()
    first, second, third = str(caught.value).split("\n")
    assert first == (
        "parameter 1 of 2, shape (1, 2), has no gradient: the loss does not depend on it, or was computed "
        "before the optimizer was made, or backward() was not called "
        "since zero_grad()"
    )
    assert "test_optimizer.py:" in second
    assert third.startswith("  hint: set requires_grad=False")
    assert used.item() == 1.0


def test_a_step_outside_training_is_refused() -> None:
    """Outside training mode a step would train another network than the one meant."""
    p = Tensor([1.0])
    optimizer = nn.optim.SGD([p])
    p.sum().backward()
    with pytest.raises(TrainingError, match=r"an optimizer steps in training mode only.*hint: with Tensor\.train\(\)"):
        optimizer.step()


def test_what_is_used_after_the_step_is_new() -> None:
    """An expression written before the step keeps the old value, one written after has the new."""
    p = Tensor([1.0])
    optimizer = nn.optim.SGD([p], lr=0.5)
    before = p * 10
    with Tensor.train():
        p.sum().backward()
        optimizer.step()
    assert (before.item(), (p * 10).item()) == (10.0, 5.0)


@pytest.mark.parametrize(("given", "name"), [(nn.Linear(2, 2), "Linear"), (Tensor([1.0]), "Tensor")])
def test_what_is_no_list_of_tensors_is_refused(given: Any, name: str) -> None:
    """A model in the place of its parameters, or one of them alone."""
    with pytest.raises(TypeError) as caught:
        nn.optim.Adam(given)
    assert str(caught.value) == (
        f"an optimizer takes a list of tensors, got {name}\n"
        "  hint: nn.state.get_parameters(model) finds those of a model"
    )


def test_the_rate_can_be_set() -> None:
    """A number or a tensor is written into the tensor that a captured step reads; its name in a state_dict is lr."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    sgd = nn.optim.SGD([w], lr=0.5)

    @TinyJit
    @Tensor.train()
    def step() -> None:
        sgd.zero_grad()
        w.sum().backward()
        sgd.step()

    wanted = 1.0
    for rate in (0.5, 0.25, 0.125, 0.0625):
        sgd.lr = rate
        step()
        wanted -= rate
        assert w.tolist() == [wanted, wanted + 1]
    assert step.captured == 1
    sgd.lr = Tensor(0.25, dtype=dtypes.float64)
    sgd.lr *= 2
    assert sgd.lr.tolist() == [0.5] and sgd.lr.dtype is dtypes.float32
    assert "lr" in nn.state.get_state_dict(sgd)
    with pytest.raises(ShapeError, match="lr is a number or a tensor of one"):
        sgd.lr = Tensor([1.0, 2.0])


LIST = "an optimizer takes a list of tensors, got "
WRONG_PARAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "layers": (lambda: nn.Sequential(nn.Linear(2, 2)),
               LIST + "Linear in it\n  hint: nn.state.get_parameters(model) finds those of a model"),
    "list of layers": (lambda: [nn.Linear(2, 2)],
                       LIST + "Linear in it\n  hint: nn.state.get_parameters(model) finds those of a model"),
    "state_dict": (lambda: {"weight": Tensor([1.0])},
                   LIST + "dict\n  hint: nn.state.get_parameters(model), or the values of a dict: "
                   "list(state.values())"),
    "one group": (lambda: {"params": [Tensor([1.0])], "lr": 0.5},
                  LIST + "dict\n  hint: groups are in a list, also one alone: [{'params': [...], 'lr': ...}]"),
    "misspelt group": (lambda: [{"param": [Tensor([1.0])], "lr": 0.5}],
                       LIST + "dict in it\n  hint: a group has its tensors as 'params', and this one has "
                       "'param', 'lr'"),
    "mixed": (lambda: [{"params": [Tensor([1.0])]}, Tensor([1.0])],
              LIST + "dict in it\n  hint: parameters with options of their own are groups, all of them: "
              "[{'params': [...], 'lr': ...}, ...]"),
    "arrays": (lambda: [np.ones(2)], LIST + "ndarray in it\n  hint: Tensor(array, requires_grad=True)"),
    "names": (lambda: ["weight"], LIST + "str in it\n  hint: nn.state.get_parameters(model) finds those of a model"),
    "pairs": (lambda: list({"weight": Tensor([1.0])}.items()),
              LIST + "tuple in it\n  hint: nn.state.get_parameters(model) finds those of a model"),
    "model in a group": (lambda: [{"params": nn.Linear(2, 2)}],
                         "a group of an optimizer takes a list of tensors, got Linear\n  hint: "
                         "nn.state.get_parameters(model) finds those of a model"),
    "state_dict in a group": (lambda: [{"params": {"weight": Tensor([1.0])}}],
                              "a group of an optimizer takes a list of tensors, got dict\n  hint: "
                              "nn.state.get_parameters(model), or the values of a dict: list(state.values())"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_PARAMS)
def test_what_is_no_tensor_is_named(case: str) -> None:
    """What is given in the place of parameters, with what was meant."""
    make, sentence = WRONG_PARAMS[case]
    with pytest.raises(TypeError) as caught:
        nn.optim.SGD(make())
    assert str(caught.value) == sentence


@pytest.mark.parametrize("groups", [1, 2])
def test_updates_of_one_size_are_one_kernel(groups: int) -> None:
    """Of 24 parameters of two sizes with all their state: two kernels, also with two groups and their own options."""
    params = [Tensor(np.ones(shape, np.float32)) for shape in [(64, 64), (64,)] * 12]
    halves: Any = [{"params": params[:12], "lr": 0.1}, {"params": params[12:], "weight_decay": 0.0}]
    adamw = nn.optim.AdamW(params if groups == 1 else halves)
    counts = []
    for _ in range(3):
        for p in params:
            p.grad = Tensor(np.ones(p.shape, np.float32)).realize()
        before = GlobalCounters.kernel_count
        with Tensor.train():
            adamw.step()
        counts.append(GlobalCounters.kernel_count - before)
    assert counts[-1] == 2


# RMSprop and Adadelta count their steps in a kernel of its own: no parameter reads the count
KERNELS = {"SGD": 2, "RMSprop": 3, "Adagrad": 2, "Adadelta": 3, "Lion": 2, "Adam": 2, "LARS": 4, "LAMB": 10, "Muon": 25}


@pytest.mark.parametrize("name", KERNELS)
def test_a_step_of_two_groups_is_few_kernels(name: str) -> None:
    """Of 24 parameters of two sizes in groups with a rate each; a new rate compiles nothing."""
    params = [Tensor(np.ones(shape, np.float32)) for shape in [(64, 32), (64,)] * 12]
    groups = [{"params": params[:12], "lr": 0.1}, {"params": params[12:], "lr": 0.2}]
    optimizer = getattr(nn.optim, name)(groups, weight_decay=0.1)
    counts = []
    for step in range(4):
        for p in params:
            p.grad = Tensor(np.ones(p.shape, np.float32)).realize()
        before, compiled = GlobalCounters.kernel_count, GlobalCounters.kernels_compiled
        with Tensor.train():
            optimizer.step()
        counts.append((GlobalCounters.kernel_count - before, GlobalCounters.kernels_compiled - compiled))
        optimizer.param_groups[1]["lr"] = 0.3 + step
    assert counts[-1][0] <= KERNELS[name]
    assert [compiled for _, compiled in counts[1:]] == [0, 0, 0]


# of 40 vectors of one size: what each kernel has room for (some 60 buffers) makes more than one of them
MANY: dict[str, tuple[dict[str, Any], int]] = {
    "SGD": ({"momentum": 0.9, "nesterov": True}, 3), "RMSprop": ({"momentum": 0.9, "centered": True}, 7),
    "Adagrad": ({}, 3), "Adadelta": ({}, 4), "Adam": ({}, 4), "AdamW": ({}, 4), "NAdam": ({}, 4), "RAdam": ({}, 4),
    "Adamax": ({}, 4), "Lion": ({}, 3), "LARS": ({}, 6), "LAMB": ({}, 10), "Muon": ({}, 20),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_a_step_of_many_parameters_copies_nothing(name: str) -> None:
    """With a weight decay p and its state read each other: only one kernel can compute both without a copy."""
    options, most = MANY[name]
    random = np.random.RandomState(0)
    values = [random.standard_normal(64).astype(np.float32) for _ in range(80)]

    def stepped(count: int) -> tuple[list[Any], int]:
        params = [Tensor(value) for value in values[:count]]
        optimizer = getattr(nn.optim, name)(params, lr=0.01, weight_decay=0.1, **options)
        for _ in range(3):
            for p, g in zip(params, values[40:], strict=False):
                p.grad = Tensor(g).realize()
            before = GlobalCounters.kernel_count
            with Tensor.train():
                optimizer.step()
        return [p.numpy() for p in params], GlobalCounters.kernel_count - before

    found, kernels = stepped(40)
    assert kernels <= most
    for one, other in zip(found, stepped(4)[0], strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_muons_matrices_of_several_shapes_are_few_kernels() -> None:
    """Small ones are padded to one stack, large ones are not; each gets the step that it gets alone."""
    shapes = [(8, 64), (32, 10), (5, 3, 7), (16, 64), (300, 290), (200, 256)]
    random = np.random.RandomState(0)
    values = [[random.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(2)]

    def stepped(chosen: list[int]) -> tuple[list[Any], int]:
        params = [Tensor(values[0][number]) for number in chosen]
        muon = nn.optim.Muon(params, lr=0.1)
        for _ in range(3):
            for p, number in zip(params, chosen, strict=True):
                p.grad = Tensor(values[1][number]).realize()
            before = GlobalCounters.kernel_count
            with Tensor.train():
                muon.step()
        return [p.numpy() for p in params], GlobalCounters.kernel_count - before

    found, kernels = stepped([*range(len(shapes))])
    assert kernels <= 3 * 19
    for number, value in enumerate(found):
        np.testing.assert_allclose(value, stepped([number])[0][0], atol=2e-5)


def test_without_weight_decay_an_infinite_weight_stays() -> None:
    """0 times infinity is NaN: a weight_decay of 0 has no part in the step."""
    weight = Tensor([np.inf, 1.0], requires_grad=True)
    optimizer = nn.optim.Lion([weight], lr=0.1, weight_decay=0.0)
    weight.grad = Tensor([1.0, 1.0])
    with Tensor.train():
        optimizer.step()
    assert weight.numpy()[0] == np.inf
    assert weight.numpy()[1] < 1


def test_gradients_are_zeros_where_that_is_asked_for() -> None:
    """set_to_none=False, as in PyTorch: what has a gradient has zeros, what has none has none."""
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    optimizer = nn.optim.SGD([a, b], lr=0.1)
    (a * 2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is not None
    assert (a.grad.tolist(), b.grad) == ([0.0, 0.0], None)
    optimizer.zero_grad()
    assert a.grad is None


def test_an_option_with_another_name_is_not_set_in_silence() -> None:
    """What nothing would read raises and names the option; attributes of the user's own are taken."""
    optimizer = nn.optim.Adam([Tensor([1.0], requires_grad=True)], lr=0.1)
    for name, meant in (
        ("lrr", "lr"),
        ("learning_rate", "lr"),
        ("weightdecay", "weight_decay"),
        ("wd", "weight_decay"),
    ):
        with pytest.raises(AttributeError) as error:
            setattr(optimizer, name, 0.5)
        assert str(error.value) == f"Adam has no {name!r} that could be set\n  hint: did you mean {meant!r}?"
    optimizer.epoch = 3  # type: ignore[attr-defined]
    optimizer.lr = 0.5
    assert (vars(optimizer)["epoch"], optimizer.lr.item()) == (3, 0.5)


OPTIONS = [("SGD", {"momentum": 0.9, "dampening": 0.5}), ("Adam", {"amsgrad": True}), ("Adagrad", {}), ("NAdam", {}),
           ("RMSprop", {"centered": True, "momentum": 0.5})]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=[name for name, _ in OPTIONS])
def test_a_group_that_is_added_starts_as_pytorchs(name: str, options: dict[str, Any]) -> None:
    """After three steps, with a rate of its own, in a step that a TinyJit has captured: its steps count from 1."""
    values = [np.array([1.0, -2.0]), np.array([0.5, 3.0])]
    mine, theirs = [Tensor(v) for v in values], [torch.tensor(v, requires_grad=True) for v in values]
    ours = getattr(nn.optim, name)(mine[:1], lr=0.1, **options)
    other = getattr(torch.optim, name)(theirs[:1], lr=0.1, **options)

    @TinyJit
    @Tensor.train()
    def step() -> None:
        ours.zero_grad()
        (mine[0].square().sum() + (mine[1] ** 3).sum()).backward()
        ours.step()

    for number in range(8):
        if number == 3:
            ours.add_param_group({"params": mine[1:], "lr": 0.05})
            other.add_param_group({"params": theirs[1:], "lr": 0.05})
        step()
        other.zero_grad()
        (theirs[0].square().sum() + (theirs[1] ** 3).sum()).backward()
        other.step()
        for p, q in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-6)
    again = getattr(nn.optim, name)([{"params": mine[:1]}], lr=0.1, **options)
    again.add_param_group({"params": mine[1:], "lr": 0.05})
    again.load_state_dict(ours.state_dict())
    assert [group["lr"].item() for group in again.param_groups] == [0.1, 0.05]
    for key, value in ours.state_dict()["state"][1].items():
        assert again.state_dict()["state"][1][key].tolist() == value.tolist()


def test_a_parameter_is_added_once() -> None:
    """One that is trained already is refused, and nothing has changed; without a rate it has that of the start."""
    a, b = Tensor([1.0]), Tensor([2.0])
    adam = nn.optim.Adam([a], lr=0.5)
    adam.lr = 0.25
    with pytest.raises(TrainingError, match="a parameter is in two groups of the optimizer"):
        adam.add_param_group({"params": [b, a]})
    with pytest.raises(ValueError, match="Adam needs lr to be at least 0, got -1"):
        adam.add_param_group({"params": [b], "lr": -1})
    assert len(adam.params) == len(adam.param_groups) == len(adam.m) == 1
    adam.add_param_group({"params": b})
    assert [group["lr"].item() for group in adam.param_groups] == [0.25, 0.5]


def test_one_rate_of_several_groups_is_read() -> None:
    """lr is the rate where all groups have the same, however it came to be; else reading it raises."""
    sgd = nn.optim.SGD([{"params": [Tensor([1.0])]}, {"params": [Tensor([2.0])]}], lr=0.5)
    assert sgd.lr.item() == 0.5
    sgd.param_groups[0]["lr"] = 0.25
    with pytest.raises(TrainingError, match="have an own lr each"):
        print(sgd.lr)
    sgd.param_groups[1]["lr"] *= 0.5
    assert sgd.lr.item() == 0.25
    sgd.lr *= 2
    assert [group["lr"].item() for group in sgd.param_groups] == [0.5, 0.5]


def test_options_that_choose_an_implementation_change_nothing() -> None:
    """foreach, fused and capturable have any value, as in PyTorch; neutral amsgrad, maximize and dampening too."""
    found = []
    for options in (
        {},
        {"foreach": True, "fused": False, "capturable": True, "differentiable": False, "maximize": False},
    ):
        p = Tensor([1.0, 2.0])
        for optimizer in (nn.optim.Adam([p], lr=0.1, **options), nn.optim.SGD([p], lr=0.1, momentum=0.9, **options)):
            step(optimizer, (p * p).sum())
            optimizer.zero_grad()
        found.append(p.tolist())
    assert found[0] == found[1]


BLOCK = [(64,), (64,), (192, 64), (192,), (64, 64), (64,), (64,), (64,), (256, 64), (256,), (64, 256), (64,)]
MODELS: list[list[tuple[int, ...]]] = [
    [(64, 32), (64,), (64, 64), (64,), (10, 64), (10,)],
    *([(65, 64), (64, 64), *BLOCK * layers, (64,), (64,)] for layers in (4, 8)),
]
DOCUMENTED = {"SGD": (4, 8, 9), "AdamW": (4, 9, 11), "LARS": (5, 13, 16), "LAMB": (9, 23, 27), "Muon": (36, 56, 57)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_kernels_of_a_step_are_as_documented(name: str) -> None:
    """The table of docs/optim.md: of three layers, and of a GPT of 4 and 8."""
    for shapes, most in zip(MODELS, DOCUMENTED[name], strict=True):
        params = [Tensor.ones(shape).contiguous() for shape in shapes if name != "Muon" or len(shape) > 1]
        optimizer = getattr(nn.optim, name)(params, lr=0.01)
        for _ in range(3):
            for p in params:
                p.grad = Tensor.ones(p.shape).contiguous().realize()
            before = GlobalCounters.kernel_count
            with Tensor.train():
                optimizer.step()
        assert GlobalCounters.kernel_count - before <= most


@pytest.mark.parametrize(("name", "most"), [("LARS", 14), ("LAMB", 26)])
def test_norms_of_large_tensors_are_few_kernels(name: str, most: int) -> None:
    """Of 24 of 65,536 to 98,304 elements: parts of several in one kernel; each gets the step that it gets alone."""
    random = np.random.RandomState(0)
    values = [random.standard_normal((256, 256 + 128 * (n % 2))).astype(np.float32) for n in range(48)]

    def stepped(numbers: list[int]) -> tuple[list[Any], list[tuple[int, int]]]:
        params = [Tensor(values[number]) for number in numbers]
        optimizer = getattr(nn.optim, name)(params, lr=0.1, weight_decay=0.1)
        counts = []
        for step in range(3):
            for p, number in zip(params, numbers, strict=True):
                p.grad = Tensor(values[24 + number]).realize()
            before = GlobalCounters.kernel_count, GlobalCounters.kernels_compiled
            with Tensor.train():
                optimizer.step()
            counts.append((GlobalCounters.kernel_count - before[0], GlobalCounters.kernels_compiled - before[1]))
            optimizer.param_groups[0]["lr"] = 0.1 + step
        return [p.numpy() for p in params], counts

    found, counts = stepped([*range(24)])
    assert [compiled for _, compiled in counts[1:]] == [0, 0]
    assert counts[-1][0] <= most
    for number in (0, 1, 23):
        np.testing.assert_allclose(found[number], stepped([number])[0][0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [nn.optim.SGD, nn.optim.LARS])
def test_dampening_without_a_momentum_changes_nothing(kind: Any) -> None:
    """As in PyTorch; the count of steps, which nothing read, raised KeyError."""
    found = []
    for options in ({}, {"dampening": 0.3}):
        p = Tensor([1.0, 2.0], requires_grad=True)
        optimizer = kind([p], lr=0.1, momentum=0, **options)
        with Tensor.train():
            for _ in range(2):
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
        found.append(p.tolist())
    assert found[0] == found[1]
