"""Checkpoints: a run that goes on bit for bit, one file that is whole or the old one, and files that lie."""

from __future__ import annotations

import gc
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.nn.state import get_parameters, get_state_dict, load_checkpoint, safe_save, save_checkpoint
from tinygraft.tensor.ops.random import rng_state, set_rng_state


class Net:
    """Two layers with dropout, which draws random numbers at each step."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def __call__(self, x: Tensor) -> Tensor:
        """Run it."""
        return self.second(self.first(x).relu().dropout(0.3))


class Schedule:
    """Something with a state of its own, numbers and text, and a tensor among them."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {
            "epoch": 0,
            "best": math.inf,
            "name": "ä",
            "seen": (1, [2, None, True]),
            3: Tensor([1.5]),
        }

    def state_dict(self) -> dict[Any, Any]:
        """The state."""
        return self.state

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        """Take it over."""
        self.state = state


class Run:
    """A model in training, under TinyJit."""

    def __init__(self, seed: int) -> None:
        Tensor.manual_seed(seed)
        self.net, self.schedule = Net(), Schedule()
        self.optimizer = nn.optim.Adam(get_parameters(self.net), lr=0.01)
        self.step = TinyJit(self._step)

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = (self.net(x) - y).square().mean().backward()
        self.optimizer.step()
        return loss.realize()

    def train(self, steps: range) -> list[float]:
        """The losses of some steps."""
        with Tensor.train():
            return [
                self.step(
                    Tensor([[i * 0.1, 1.0, -i * 0.2, 0.5]] * 3).realize(), Tensor([[i * 0.3]] * 3).realize()
                ).item()
                for i in steps
            ]

    def parts(self) -> dict[str, Any]:
        """What a checkpoint has of it."""
        return {"model": self.net, "optimizer": self.optimizer, "schedule": self.schedule}


def bits(run: Run) -> dict[str, bytes]:
    """All values of a run."""
    return {name: bytes(t.data().cast("B")) for name, t in get_state_dict([run.net, run.optimizer]).items()}


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """In objects of another seed, with or without a captured step, which sees what is read."""
    path, run = tmp_path / "last.ckpt", Run(1)
    run.train(range(5))
    save_checkpoint(path, step=5, **run.parts())
    expected = run.train(range(5, 10))
    for before in (0, 4):
        other = Run(2)
        other.train(range(before))
        assert load_checkpoint(path, **other.parts()) == {"step": 5}
        assert other.train(range(5, 10)) == expected
        assert bits(other) == bits(run)


def test_a_state_of_any_kind_is_kept(tmp_path: Path) -> None:
    """Keys that are numbers, tuples, None, an infinity, and a dict without an object, whose tensors are lazy."""
    saved = Schedule()
    save_checkpoint(
        tmp_path / "c", schedule=saved, extra={"w": Tensor([2.0]), "$": "text"}, none=[], step={"epoch": 3, "batch": 9}
    )
    found = Schedule()
    found.state = {}
    rest = load_checkpoint(tmp_path / "c", schedule=found)
    assert found.state.pop(3).tolist() == [1.5]
    assert found.state == {"epoch": 0, "best": math.inf, "name": "ä", "seen": (1, [2, None, True])}
    assert rest["step"] == {"epoch": 3, "batch": 9} and rest["extra"]["$"] == "text" and rest["none"] == []
    assert rest["extra"]["w"].uop.base.realized is None and rest["extra"]["w"].tolist() == [2.0]


def test_names_that_look_alike_are_kept_apart(tmp_path: Path) -> None:
    """A key with a dot, and a dict in a dict."""
    save_checkpoint(tmp_path / "c", extra={"a.b": Tensor([1.0]), "a": {"b": Tensor([2.0])}, "n": 0})
    found = load_checkpoint(tmp_path / "c")["extra"]
    assert found["a.b"].tolist() == [1.0] and found["a"]["b"].tolist() == [2.0]


def test_lists_and_dicts_of_layers_are_models(tmp_path: Path) -> None:
    """Whose tensors have the names that get_state_dict gives; with numbers between them they are refused."""
    saved, found = ({"body": [nn.Linear(2, 2), (nn.Linear(2, 1),)]} for _ in range(2))
    save_checkpoint(tmp_path / "c", model=saved, tensors=[Tensor([1.0]), {"a": Tensor([2.0])}])
    others = [Tensor([0.0]), {"a": Tensor([0.0])}]
    load_checkpoint(tmp_path / "c", model=found, tensors=others)
    for name, tensor in get_state_dict(saved).items():
        assert get_state_dict(found)[name].tolist() == tensor.tolist()
    assert others[0].tolist() == [1.0] and others[1]["a"].tolist() == [2.0]
    with pytest.raises(DTypeError, match="'model.layer' is Linear"):
        save_checkpoint(tmp_path / "c", model={"layer": nn.Linear(1, 1), "epoch": 3})


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    """Unless rng=False says otherwise."""
    Tensor.manual_seed(3)
    Tensor.rand(5).realize()
    save_checkpoint(tmp_path / "c")
    expected = Tensor.rand(3).tolist()
    Tensor.manual_seed(4)
    load_checkpoint(tmp_path / "c", rng=False)
    assert Tensor.rand(3).tolist() != expected
    load_checkpoint(tmp_path / "c")
    assert Tensor.rand(3).tolist() == expected


def test_a_state_of_random_numbers_is_checked() -> None:
    """Before anything is changed."""
    before = rng_state()
    for wrong in (
        {},
        {"seed": 1},
        {"seed": 1.0, "devices": {}},
        {"seed": 1, "devices": {"CPU": [1]}},
        {"seed": 1, "devices": {"CPU": [1, 1 << 64]}},
        3,
    ):
        with pytest.raises(FileFormatError, match="a state of random numbers has a seed and two words"):
            set_rng_state(wrong)  # type: ignore[arg-type]
    assert rng_state() == before


def test_shared_tensors_are_written_once(tmp_path: Path) -> None:
    """The parameters that an optimizer has are those of the model."""
    run = Run(1)
    save_checkpoint(tmp_path / "with", model=run.net, params=run.optimizer.params)
    save_checkpoint(tmp_path / "alone", model=run.net)
    assert (tmp_path / "with").stat().st_size - (tmp_path / "alone").stat().st_size < 1000


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that is killed does: the new one has its name when it is whole."""
    save_checkpoint(tmp_path / "c", model={"w": Tensor([1.0])}, step=1)
    monkeypatch.setattr("tinygraft.nn.safetensors._to_bytes", lambda tensor: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_checkpoint(tmp_path / "c", model={"w": Tensor([2.0])}, step=2)
    assert load_checkpoint(tmp_path / "c")["step"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_what_has_no_place_in_a_file_is_refused(tmp_path: Path) -> None:
    """With its name; nothing is written."""
    with pytest.raises(DTypeError, match="'model.deep.1' is function"):
        save_checkpoint(tmp_path / "c", model={"deep": [1, print.__class__ and (lambda: 0)]})
    for nothing in (nn.Linear, object(), np.ones(2)):
        with pytest.raises(DTypeError, match="a checkpoint has nothing to save of 'model'"):
            save_checkpoint(tmp_path / "c", model=nothing)
    assert not (tmp_path / "c").exists()


def test_parts_that_do_not_fit_are_named_and_nothing_is_loaded(tmp_path: Path) -> None:
    """All names that are missing, unexpected, or of another shape."""
    save_checkpoint(
        tmp_path / "c", model={"a": Tensor([1.0]), "b": Tensor([1.0]), "d": Tensor([[1.0]])}, other={"x": Tensor([5.0])}
    )
    model, other = {"a": Tensor([7.0, 7.0]), "c": Tensor([7.0]), "d": Tensor([7.0])}, {"x": Tensor([7.0])}
    why = (
        r"the part 'model' does not fit: the names differ: the model also has 'c', the state also has 'b'; "
        r"strict=False loads what both have; 'a' has shape \(2,\) in the model and \(1,\) in the state; "
        r"'d' has shape \(1,\) in the model and \(1, 1\)"
    )
    with pytest.raises(FileFormatError, match=why):
        load_checkpoint(tmp_path / "c", other=other, model=model)
    assert other["x"].tolist() == [7.0]
    with pytest.raises(FileFormatError, match=r"has the parts \['model', 'other'\], not \['optimizer'\]"):
        load_checkpoint(tmp_path / "c", optimizer={})
    fits = {"b": Tensor([7.0]), "c": Tensor([7.0])}
    load_checkpoint(tmp_path / "c", strict=False, model=fits)
    assert fits["b"].tolist() == [1.0] and fits["c"].tolist() == [7.0]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is no checkpoint"),
        ("{", "is no checkpoint"),
        ("[" * 50_000, "is no checkpoint"),
        ('{"version":1,"parts":3}', "is no checkpoint"),
        ('{"version":2,"parts":{}}', "version 2; version 1 is read"),
        ('{"version":1,"parts":{"a":{"$":"tensor","name":"gone"}}}', "is damaged"),
        ('{"version":1,"parts":{"a":{"$":"call","name":"os.system"}}}', "is damaged"),
        ('{"version":1,"parts":{"a":{"$":"dict","items":[[1]]}}}', "is damaged"),
        ('{"version":1,"parts":{},"rng":{"seed":"x"}}', "a state of random numbers has"),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path: Path, content: str | None, why: str) -> None:
    """Nothing in it is executed."""
    gc.collect()  # else it may come in the midst of 50,000 brackets, and no callback of a weak reference has room there
    safe_save({"w": Tensor([1.0])}, tmp_path / "c", {"tinygraft.checkpoint": content} if content else None)
    with pytest.raises(FileFormatError, match=why):
        load_checkpoint(tmp_path / "c")
    assert json.dumps("")


def test_a_load_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Neither the parts before nor the random numbers: a scheduler, and an object that refuses, come last here."""

    class Refusing:
        value = 1

        def state_dict(self) -> dict[str, Any]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.value = state["value"]
            if self.value == 3:
                raise RuntimeError("3 is refused")

    def make() -> dict[str, Any]:
        layer = nn.Linear(2, 2)
        optimizer = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.5)
        return {
            "model": layer, "optimizer": optimizer, "scaler": nn.optim.LossScaler(8.0), "own": Refusing(),
            "schedule": nn.optim.lr_scheduler.StepLR(optimizer, 2),
            "group": nn.optim.OptimizerGroup(nn.optim.SGD([Tensor([1.0])], lr=0.1, momentum=0.5)),
        }  # fmt: skip

    def state(parts: dict[str, Any]) -> list[Any]:
        found = [part.state_dict() for part in parts.values() if hasattr(part, "state_dict")]
        return [str(found), *(t.tolist() for t in nn.state.get_state_dict([found, parts["model"]]).values())]

    saved, parts = make(), make()
    saved["optimizer"].lr, saved["own"].value = 0.25, 3
    nn.state.save_checkpoint(tmp_path / "a", **saved)
    before = state(parts)
    Tensor.manual_seed(3)
    expected = Tensor.rand(3).tolist()
    Tensor.manual_seed(3)
    with pytest.raises(RuntimeError, match="^3 is refused$"):
        nn.state.load_checkpoint(tmp_path / "a", **parts)
    assert state(parts) == before and Tensor.rand(3).tolist() == expected
    del parts["own"]
    before = state(parts)
    for name, other in (
        ("schedule", nn.optim.lr_scheduler.ExponentialLR(parts["optimizer"], 0.5)),
        ("group", nn.optim.OptimizerGroup(nn.optim.SGD([Tensor([1.0])]), nn.optim.SGD([Tensor([1.0])]))),
        ("scaler", nn.optim.SGD([Tensor([1.0])])),
    ):
        before = state(parts)
        with pytest.raises(FileFormatError):
            nn.state.load_checkpoint(tmp_path / "a", **{**parts, name: other})
        assert state(parts) == before


def test_numbers_of_numpy_become_pythons(tmp_path: Path) -> None:
    """Alone, in lists and dicts, and as the step."""
    numbers = {"best": np.float32(0.5), "epochs": [np.int64(3), np.bool_(True)], "mean": np.float64(0.25)}
    nn.state.save_checkpoint(tmp_path / "a", numbers=numbers, step=np.int64(7), rng=False)
    found = nn.state.load_checkpoint(tmp_path / "a")
    assert found == {"step": 7, "numbers": {"best": 0.5, "epochs": [3, True], "mean": 0.25}}
    assert type(found["step"]) is int and type(found["numbers"]["epochs"][1]) is bool


@pytest.mark.parametrize("name", ["device", "strict"])
def test_names_that_loading_could_not_ask_for(tmp_path: Path, name: str) -> None:
    """They are arguments of load_checkpoint."""
    message = f"^a checkpoint has no part '{name}', which is an argument of load_checkpoint: give it another name$"
    with pytest.raises(DTypeError, match=message):
        nn.state.save_checkpoint(tmp_path / "a", **{name: nn.Linear(1, 1)})


def test_a_tensor_is_a_part(tmp_path: Path) -> None:
    """It is returned as one, and read into one; where no step was saved there is none."""
    save_checkpoint(tmp_path / "c", best=Tensor(0.5), model=nn.Linear(1, 1))
    found = load_checkpoint(tmp_path / "c", model=nn.Linear(1, 1))
    assert found.keys() == {"best"} and found["best"].item() == 0.5
    best = Tensor(1.0)
    assert load_checkpoint(tmp_path / "c", best=best, model=nn.Linear(1, 1)) == {}
    assert best.item() == 0.5
    with pytest.raises(
        FileFormatError, match=r"the part 'best' does not fit: '' has shape \(2,\) in the model and \(\)"
    ):
        load_checkpoint(tmp_path / "c", best=Tensor([1.0, 2.0]))


def test_a_state_of_another_kind_is_named_with_file_and_part(tmp_path: Path) -> None:
    """What an optimizer or a scheduler says of it, after the file and the part; and what to do."""
    adam = nn.optim.Adam([Tensor([1.0])])
    cosine = nn.optim.lr_scheduler.CosineAnnealingLR(adam, 3)
    save_checkpoint(tmp_path / "c", adam=adam, schedule=cosine)
    sgd = nn.optim.SGD([Tensor([1.0])])
    for part, why in (
        ({"adam": sgd}, "the state has the option eps=1e-08, which SGD lacks\n"
                        "  hint: make the optimizer whose state it is, or go on without that state"),
        ({"schedule": nn.optim.lr_scheduler.StepLR(sgd, 2)}, "StepLR has no 'T_max', which the state has\n"
                        "  hint: make the scheduler whose state it is, or go on without that state"),
    ):  # fmt: skip
        with pytest.raises(FileFormatError) as caught:
            load_checkpoint(tmp_path / "c", **part)
        (name,) = part
        assert str(caught.value) == f"{tmp_path / 'c'}: the part {name!r} does not fit: {why}"
