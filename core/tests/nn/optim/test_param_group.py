"""Parameters in groups, with options of their own that can be set: as PyTorch's, in captured steps too."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, nn
from tinygraft.errors import DTypeError, ShapeError, TrainingError
from tinygraft.nn.optim.update import Update, _wide_dtype

torch = pytest.importorskip("torch")

START = [np.random.RandomState(n).standard_normal((3, 2)).astype(np.float32) for n in range(3)]
# an optimizer, options of its second group, and what is set after five steps
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.03, "momentum": 0.5, "weight_decay": 0.1}, {"momentum": 0.8}),
    "adam": ("Adam", {"lr": 0.03, "betas": (0.8, 0.95), "weight_decay": 0.1}, {"betas": (0.7, 0.9), "eps": 1e-3}),
    "adamw": ("AdamW", {"weight_decay": 0.3}, {"weight_decay": 0.0}),
    "rmsprop": ("RMSprop", {"alpha": 0.8, "momentum": 0.5}, {"alpha": 0.7, "momentum": 0.0}),
    "adagrad": ("Adagrad", {"lr_decay": 0.3, "lr": 0.5}, {"lr_decay": 0.0}),
    "adadelta": ("Adadelta", {"rho": 0.5, "lr": 2.0}, {"rho": 0.6}),
}


def theirs(case: str) -> list[Any]:
    """The parameters after each of ten steps of PyTorch."""
    name, own, later = CASES[case]
    params = [torch.tensor(value, requires_grad=True) for value in START]
    optimizer = getattr(torch.optim, name)([{"params": params[:1]}, {"params": params[1:], **own}], lr=0.1)
    found = []
    for number in range(10):
        if number == 5:
            optimizer.param_groups[1].update(later)
            optimizer.param_groups[0]["lr"] = 0.05
        optimizer.zero_grad()
        sum((p * p * p).sum() for p in params).backward()
        optimizer.step()
        found.append([p.detach().numpy().copy() for p in params])
    return found


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "replayed"])
@pytest.mark.parametrize("case", CASES)
def test_groups_are_pytorchs(case: str, jit: bool) -> None:
    """Options of a group, and new ones from the fifth step on, which hold in what was captured; no step compiles."""
    name, own, later = CASES[case]
    params = [Tensor(value) for value in START]
    optimizer = getattr(nn.optim, name)([{"params": params[:1]}, {"params": params[1:], **own}], lr=0.1)

    @Tensor.train()
    def step() -> None:
        optimizer.zero_grad()
        sum(((p * p * p).sum() for p in params), Tensor(0.0)).backward()
        optimizer.step()

    run: Any = TinyJit(step) if jit else step
    for number, wanted in enumerate(theirs(case)):
        if number == 5:
            optimizer.param_groups[1].update(later)
            optimizer.param_groups[0]["lr"] = 0.05
        before = GlobalCounters.kernels_compiled
        run()
        assert number < 3 or GlobalCounters.kernels_compiled == before
        for p, value in zip(params, wanted, strict=True):
            np.testing.assert_allclose(p.numpy(), value, rtol=1e-3 if "ad" in case else 1e-4, atol=1e-5)
    assert not jit or run.captured == 1


def test_a_new_number_compiles_nothing() -> None:
    """After the first, whose copy into memory is a kernel."""
    adam = nn.optim.Adam([Tensor([1.0])])
    adam.lr, adam.b1 = 0.5, 0.25
    before = GlobalCounters.kernels_compiled
    for number in range(5):
        adam.lr, adam.b1 = 0.125 * number, 0.0625 * number
    assert GlobalCounters.kernels_compiled == before
    assert (adam.lr.item(), adam.b1) == (0.5, 0.25)


def test_groups_make_no_more_kernels() -> None:
    """An update is one kernel for each parameter, in one group and in four."""
    launched = []
    for grouped in (False, True):
        params = [Tensor(np.ones((3, 4), np.float32)) for _ in range(4)]
        adam = nn.optim.Adam([{"params": [p], "lr": 0.1} for p in params] if grouped else params)
        for p in params:
            p.grad = Tensor(np.ones((3, 4), np.float32)).realize()
        with Tensor.train():
            before = GlobalCounters.kernel_count
            adam.step()
        launched.append(GlobalCounters.kernel_count - before)
    assert launched[0] == launched[1] <= 5


def test_a_group_is_a_mapping() -> None:
    """Its options by name, with others that are put in; a copy is a dict."""
    p = Tensor([1.0])
    group = nn.optim.Adam([{"params": p, "name": "first"}], lr=0.5, b1=0.8).param_groups[0]
    assert (group["name"], group["b1"], group["betas"]) == ("first", 0.8, (0.8, 0.999))
    assert [id(t) for t in group["params"]] == [id(p)]
    assert list(group) == ["params", "lr", "eps", "weight_decay", "b1", "b2", "amsgrad", "maximize", "name"]
    assert {**group}["eps"] == 1e-8
    group["initial_lr"] = 0.25
    del group["initial_lr"]
    assert "initial_lr" not in group
    assert len(group) == 9
    assert repr(group).startswith("<group of 1 parameter, lr=0.5, {'eps': 1e-08")
    with pytest.raises(KeyError):
        group["alpha"]


def test_an_option_of_the_optimizer_is_that_of_all_groups() -> None:
    """Read where all have one, set in all."""
    optimizer = nn.optim.SGD([{"params": [Tensor([1.0])]}, {"params": [Tensor([1.0])], "lr": 0.5}], momentum=0.9)
    assert optimizer.momentum == 0.9
    with pytest.raises(TrainingError, match=r"the 2 groups .* have an own lr each; hint: param_groups\[0\]\['lr'\]"):
        _ = optimizer.lr
    optimizer.lr = 0.25
    optimizer.momentum = 0.5
    assert [(group["lr"].item(), group["momentum"]) for group in optimizer.param_groups] == [(0.25, 0.5)] * 2


def sgd(**options: Any) -> nn.optim.Optimizer:
    """One parameter."""
    return nn.optim.SGD([Tensor([1.0])], **options)


def rmsprop() -> nn.optim.Optimizer:
    """One parameter, without momentum."""
    return nn.optim.RMSprop([Tensor([1.0])])


def two(**own: Any) -> nn.optim.Optimizer:
    """Two groups, the second with options."""
    return nn.optim.Adam([{"params": [Tensor([1.0])]}, {"params": [Tensor([1.0])], **own}])


def put(optimizer: nn.optim.Optimizer, name: str, value: Any) -> None:
    """Set an option of the first group."""
    optimizer.param_groups[0][name] = value


shared = Tensor([1.0])
BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "negative": (lambda: put(sgd(), "lr", -1.0), ValueError, "SGD needs lr to be at least 0, got -1.0"),
    "share": (lambda: put(two(), "b1", 1.0), ValueError, "Adam needs b1 to be from 0 to below 1, got 1.0"),
    "shares": (lambda: put(two(), "betas", (0.5, 1.5)), ValueError, "Adam needs b2 to be from 0 to below 1, got 1.5"),
    "of a group": (lambda: two(weight_decay=-1.0), ValueError, "Adam needs weight_decay to be at least 0, got -1.0"),
    "misspelt": (lambda: two(weight_decy=0.1), ValueError,
                 "Adam has no option 'weight_decy', which a group gives\n  hint: did you mean 'weight_decay'"),
    "unknown": (lambda: two(sharpness=0.1), ValueError,
                "Adam has no option 'sharpness', which a group gives\n  hint: it has lr, eps, weight_decay, b1, "),
    "several": (lambda: put(sgd(), "lr", Tensor([1.0, 2.0])), ShapeError, "lr is a number or a tensor of one"),
    "integers": (lambda: put(sgd(), "lr", Tensor([1])), DTypeError, "lr is a number or a tensor of floats"),
    "params": (lambda: put(sgd(), "params", []), TrainingError, "'params' is fixed when an optimizer is made"),
    "form": (lambda: put(sgd(), "nesterov", True), TrainingError, "'nesterov' is fixed when an optimizer is made"),
    "momentum": (lambda: put(sgd(), "momentum", 0.9), TrainingError, "SGD was made without momentum and has no state"),
    "rmsprop": (lambda: put(rmsprop(), "momentum", 0.9), TrainingError, "RMSprop was made without momentum"),
    "deleted": (lambda: sgd().param_groups[0].pop("lr"), TrainingError, "'lr' is an option of the optimizer"),
    "twice": (lambda: nn.optim.SGD([{"params": [shared]}, {"params": [shared]}]), TrainingError, "is in two groups"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refusals(case: str) -> None:
    """What cannot be meant is named, and nothing is written."""
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        make()


def test_betas_are_the_shares() -> None:
    """In the constructor, as in a group."""
    for name in ("Adam", "AdamW", "LAMB", "Lion"):
        optimizer = getattr(nn.optim, name)([Tensor([1.0])], betas=(0.5, 0.75))
        assert (optimizer.b1, optimizer.b2, optimizer.param_groups[0]["betas"]) == (0.5, 0.75, (0.5, 0.75))


def test_names_in_a_state_dict() -> None:
    """nn.state finds rates, parameters and state, each by one name; a copy and a pickle step on."""
    a, b = Tensor([1.0]), Tensor([2.0])
    adam = nn.optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.5}])
    assert sorted(nn.state.get_state_dict(adam)) == [
        "lr.0", "lr.1", "m.0", "m.1", "params.0", "params.1", "t", "v.0", "v.1",
    ]  # fmt: skip
    for other in (copy.deepcopy(adam), pickle.loads(pickle.dumps(adam))):
        other.param_groups[1]["lr"] = 0.25
        with Tensor.train():
            (other.params[0] + other.params[1]).sum().backward()
            other.step()
        assert abs(other.params[1].item() - 1.75) < 1e-5
    assert (b.item(), adam.param_groups[1]["lr"].item()) == (2.0, 0.5)


def test_both_shares_or_none() -> None:
    """A wrong second share leaves the first as it was."""
    adam = nn.optim.Adam([Tensor([1.0])])
    with pytest.raises(ValueError, match="b2"):
        adam.param_groups[0]["betas"] = (0.5, 1.5)
    assert adam.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize("name", ["Lion", "RMSprop", "Adagrad", "Adadelta"])
@pytest.mark.parametrize("option", ["lr", "weight_decay"])
def test_numbers_below_zero(name: str, option: str) -> None:
    """As the other optimizers."""
    with pytest.raises(ValueError, match=f"{name} needs {option} to be at least 0, got -1"):
        getattr(nn.optim, name)([Tensor([1.0])], **{option: -1})


@pytest.mark.parametrize("kind", [nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW, nn.optim.RMSprop])
def test_a_weight_decay_that_was_0_holds_in_a_captured_step(kind: Any) -> None:
    """A step has no part for it before, so that infinite parameters stay infinite; then it is captured anew."""
    found = []
    for wrap in (lambda function: function, TinyJit):
        p, x = Tensor([[1.0, -2.0], [0.5, 3.0]]), Tensor([[0.5, 1.0], [-1.0, 0.25]]).realize()
        optimizer = kind([p], lr=0.002, weight_decay=0.0)

        @wrap
        def step(x: Tensor, p: Tensor = p, optimizer: Any = optimizer) -> None:
            with Tensor.train():
                optimizer.zero_grad()
                (p @ x).square().sum().backward()
                optimizer.step()

        for decay in (None, 0.5, 0.0):
            if decay is not None:
                optimizer.weight_decay = decay
            for _ in range(4):
                step(x)
        found.append(p.tolist())
    assert found[0] == found[1]


def test_lists_that_no_step_would_look_at_again_do_not_change() -> None:
    """Neither the parameters of a group nor the groups; they are lists, and are copied and pickled as such."""
    sgd = nn.optim.SGD([Tensor([1.0])], lr=0.1)
    pair = nn.optim.OptimizerGroup(sgd, nn.optim.SGD([Tensor([1.0])], lr=0.1))
    hint = "\n  hint: optimizer.add_param_group({'params': [...]}); nn.optim.OptimizerGroup(a, b) steps several as one"
    for items, what in ((sgd.param_groups[0]["params"], "its parameters"), (sgd.param_groups, "its groups"),
                        (pair.param_groups, "its groups")):  # fmt: skip
        for change in (lambda x: x.append(Tensor([2.0])), lambda x: x.clear(), lambda x: x.__setitem__(0, None)):
            with pytest.raises(TrainingError) as caught:
                change(items)
            assert str(caught.value) == (
                f"an optimizer has {what} from the start, and no step would see a change of this list{hint}"
            )
        assert isinstance(items, list) and len(items) == len(copy.copy(items)) == len(copy.deepcopy(items))
    assert len(pickle.loads(pickle.dumps(sgd)).param_groups) == 1


def test_what_a_group_shares_is_made_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each group, device and width of its parameters; each is updated as by an optimizer of its own."""
    made: list[tuple[int, str, Any, str]] = []
    number_named = Update._number_named

    def noted(self: Update, name: str) -> Tensor:
        made.append((self.group["params"][0].numel(), name, self.p.device, _wide_dtype(self.p).name))
        return number_named(self, name)

    monkeypatch.setattr(Update, "_number_named", noted)

    def parameters() -> list[Tensor]:
        kinds = [("float32", "CPU"), ("float16", "CPU"), ("float64", "CPU"), ("float32", "PYTHON"), ("float32", "CPU")]
        return [Tensor([[1.0, -2.0]] * (n + 1), dtype=of, device=device) for n, (of, device) in enumerate(kinds)]

    def stepped(params: list[Tensor], adam: list[nn.optim.Adam]) -> list[Any]:
        with Tensor.train():
            for step in range(3):
                for p in params:
                    p.grad = Tensor(np.full(p.shape, 0.5 + step), dtype=p.dtype, device=p.device)
                for each in adam:
                    each.step()
                    assert not each._shared
                    assert not each._numbers
                adam[-1].param_groups[-1]["b1"] = 0.7  # in force from the next step on
        return [p.numpy() for p in params]

    own = {"lr": 0.3, "b2": 0.9}
    params = parameters()
    found = stepped(params, [nn.optim.Adam([{"params": params[1:]}, {"params": params[:1], **own}], lr=0.1)])
    assert len(made) == 2 * len(set(made))  # the third step is a replay of the second
    assert {key[2:] for key in made} == {("CPU", "float"), ("CPU", "double"), ("PYTHON", "float")}
    params = parameters()
    alone = [nn.optim.Adam([p], lr=0.1) for p in params[1:]]
    wanted = stepped(params, [*alone, nn.optim.Adam(params[:1], **own)])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "name"), [("SGD", "nesterov"), ("Adam", "amsgrad"), ("RMSprop", "centered"), ("SGD", "maximize")]
)
def test_what_decides_the_form_of_a_step_cannot_be_set_on_the_optimizer(kind: str, name: str) -> None:
    """As on a group: no step would read it."""
    optimizer = getattr(nn.optim, kind)([Tensor([1.0])], lr=0.1)
    assert getattr(optimizer, name) is False
    with pytest.raises(TrainingError, match=f"'{name}' is fixed when an optimizer is made; hint: make another"):
        setattr(optimizer, name, True)
