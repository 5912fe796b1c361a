"""The quick reference, run in page order in one interpreter, and its shell lines.

quick_reference.txt holds the cells. The page shows no output, so each test states what a reader may expect of
the cell that it names. Model, mnist, batch, labels and uop, which the page leaves undefined, are made here.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygraft
from read_page import read_page
from tinygraft import Device, GlobalCounters, Tensor, TinyJit, dtypes, nn
from tinygraft.nn import datasets
from tinygraft.uop.ops import Ops, UOp

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
Names = dict[str, Any]
After = Callable[[str], Names]
IMAGES = 2048


class TwoLayers:
    """The Model that the training loop finds before the page defines its own."""

    def __init__(self) -> None:
        self.l1, self.l2 = nn.Linear(784, 32), nn.Linear(32, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """x (N, ..., 28, 28) or (N, 784) -> scores (N, 10)."""
        return self.l2(self.l1(x.flatten(1) / 255.0).relu())


def images_of_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What mnist() gives, without a download: uint8 images whose class is the row of a bright bar."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, IMAGES).astype(np.uint8)
    images = generator.integers(0, 60, (IMAGES, 1, 28, 28)).astype(np.uint8)
    images[np.arange(IMAGES), 0, 2 * labels + 4, 4:24] = 255
    half = IMAGES // 2
    return Tensor(images[:half]), Tensor(labels[:half]), Tensor(images[half:]), Tensor(labels[half:])


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[After]:
    """The page's names as they are after a cell; every cell runs once, those before it first."""
    cells = read_page(HERE / "quick_reference.txt")
    snapshots: dict[str, Names] = {}
    state: Names = {"__name__": "quick_reference"}
    patch = pytest.MonkeyPatch()
    patch.setattr(datasets, "mnist", images_of_digits)
    patch.chdir(tmp_path_factory.mktemp("quick_reference"))
    given: dict[str, Callable[[], Names]] = {
        "training context": lambda: model_and_optimizer()
        | {"x": Tensor.rand(4, 784), "labels": Tensor([3, 1, 4, 1])},
        "training loop": lambda: {"Model": TwoLayers},
        "jit": lambda: {"batch": Tensor.rand(8, 784)},
        "patterns": lambda: {"uop": UOp.const(dtypes.int, 3) + UOp.const(dtypes.int, 3)},
    }  # fmt: skip

    def run_to(name: str) -> Names:
        for cell in cells[len(snapshots) :]:
            if name in snapshots:
                break
            state.update(given.get(cell.note, dict)())
            exec(compile(cell.code, f"<{cell.note}>", "exec"), state)
            snapshots[cell.note] = dict(state)
        return snapshots[name]

    yield run_to
    patch.undo()


def model_and_optimizer() -> Names:
    """A model and its optimizer, as the page's training context finds them."""
    model = TwoLayers()
    optim = nn.optim.Adam(nn.state.get_parameters(model))
    return {"model": model, "optim": optim, "weight before": model.l1.weight.numpy()}


def test_the_first_line_imports_everything(after: After) -> None:
    """Every name of the page's first import is tinygraft's own."""
    names = after("imports")
    wanted = ("Tensor", "TinyJit", "nn", "dtypes", "Device", "GlobalCounters")
    assert {n: names[n] for n in wanted} == {n: getattr(tinygraft, n) for n in wanted}


def test_tensors_are_created(after: After) -> None:
    """x ends as kaiming_uniform(128, 784): float32, evenly within sqrt(6 / ((1 + 0.01**2) * 784)) of 0."""
    x = after("creation")["x"]
    assert (x.shape, x.dtype) == ((128, 784), dtypes.float32)
    values = x.numpy()
    bound = (6 / ((1 + 0.01**2) * 784)) ** 0.5
    assert np.abs(values).max() <= bound
    assert values.std() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_operations_are_lazy_until_realized(after: After) -> None:
    """y is computed by realize(), and has numpy's value."""
    names = after("lazy")
    assert names["y"].uop.base.realized is not None
    expected = np.maximum(after("creation")["x"].numpy() + 1, 0).sum()
    assert names["y"].item() == pytest.approx(expected, rel=1e-5)


def test_a_step_in_the_training_context_changes_the_weights(after: After) -> None:
    """backward() returns the loss and fills the gradients, step() moves the weights, training mode ends."""
    names = after("training context")
    assert names["loss"].shape == ()
    assert names["model"].l1.weight.grad is not None
    assert not Tensor.training
    change = np.abs(names["model"].l1.weight.numpy() - names["weight before"])
    assert 1e-4 < change.max() < 1e-2, "Adam's first step moves a weight by about its rate, 0.001"


def test_the_training_loop_learns(after: After) -> None:
    """After 100 jitted steps the loss is far below the 2.3 of guessing, and unseen images are told apart."""
    names = after("training loop")
    assert names["loss"].item() < 0.5
    guessed = names["model"](names["X_test"]).argmax(1).numpy()
    assert (guessed == names["Y_test"].numpy()).mean() > 0.9


def test_the_jitted_step_is_replayed(after: After) -> None:
    """Further steps make no graph: the train step compiles no kernel."""
    names = after("training loop")
    GlobalCounters.reset()
    names["train_step"]()
    assert GlobalCounters.kernels_compiled == 0
    assert GlobalCounters.kernel_count > 0


def test_a_model_is_a_plain_class(after: After) -> None:
    """The page's Model maps (N, 784) to (N, 10) through sequential()."""
    model = after("model definition")["Model"]()
    assert model(Tensor.rand(3, 784)).numpy().shape == (3, 10)


LAYERS = ["Linear", "Conv2d", "BatchNorm", "LayerNorm", "RMSNorm", "Embedding", "GroupNorm", "LSTMCell"]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_there(name: str) -> None:
    """A layer that the page lists is a class of nn."""
    assert isinstance(getattr(nn, name), type)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "LARS", "LAMB", "Muon"])
def test_optimizers_are_there(name: str) -> None:
    """An optimizer that the page lists can be made from a list of parameters."""
    assert getattr(nn.optim, name)([Tensor.rand(3, requires_grad=True)]).schedule_step is not None


def test_weights_go_to_a_file_and_back(after: After) -> None:
    """After saving and loading, params are the four tensors of the model with the values of the file."""
    names = after("state")
    assert len(names["params"]) == 4
    saved = nn.state.safe_load("model.safetensors")
    assert sorted(saved) == ["l1.bias", "l1.weight", "l2.bias", "l2.weight"]
    for name, tensor in nn.state.get_state_dict(names["model"]).items():
        np.testing.assert_array_equal(tensor.numpy(), saved[name].numpy())


def test_a_jitted_function_gives_what_the_function_gives(after: After) -> None:
    """forward is a TinyJit, and first and later calls agree with the model for new batches."""
    names = after("jit")
    assert isinstance(names["forward"], TinyJit)
    assert names["out"].shape == (8, 10)
    for _ in range(4):
        batch = Tensor.rand(8, 784).realize()
        expected = names["model"](batch).numpy()
        np.testing.assert_allclose(names["forward"](batch).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_device_is_chosen_and_named(after: After, capsys: pytest.CaptureFixture[str]) -> None:
    """Device.DEFAULT prints; a tensor sent to a device that is not here is a graph that names it."""
    names = after("devices")
    assert names["Device"] is Device
    assert isinstance(Device.DEFAULT, str)
    assert names["x"].device == "CUDA"
    assert names["x"].shape == (10,)


def test_a_pattern_rewrites_a_graph(after: After) -> None:
    """3 + 3 matches ADD of one constant with itself, and becomes 3 * 2."""
    result = after("patterns")["result"]
    assert result.op is Ops.MUL
    assert [s.arg for s in result.src] == [3, 2]


def shell(arguments: list[str], folder: Path, **settings: str) -> str:
    """What a command prints, run in folder with these settings; it must succeed."""
    env = {k: v for k, v in os.environ.items() if k not in ("DEBUG", "VIZ", "SPEC", "NOOPT", "BEAM")}
    env.update(settings)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script.py of the page: small, with one kernel of a constant and one of a sum."""
    path = tmp_path / "script.py"
    path.write_text(
        "from tinygraft import Tensor\n"
        "print((Tensor([1.0, 2.0, 3.0]) * 3).sum().item())\n"
    )  # fmt: skip
    return path


def test_viz_writes_a_page(tmp_path: Path) -> None:
    """`VIZ=1 python -c ...` prints the path of an HTML page that holds the graph and loads nothing."""
    line = "from tinygraft import Tensor; Tensor.ones(10).sum().realize()"
    printed = shell(["-c", line], tmp_path, VIZ="1", TMPDIR=str(tmp_path))
    path = Path(printed.splitlines()[-1].removeprefix("VIZ: "))
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r'<script type="application/octet-stream" id="[a-z]+-\d+">(.*?)</script>', text)
    stages = [stage for block in blocks for stage in json.loads(zlib.decompress(base64.b64decode(block)))]
    assert any("REDUCE_AXIS" in stage["text"] for stage in stages)
    assert text.startswith("<!doctype html>")
    assert not re.search(r'(src|srcset)="|@import|url\(', text)
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in text


def test_debug_4_prints_the_code(script: Path) -> None:
    """`DEBUG=4 python script.py` prints the source of a kernel, a line for each launch, and the result."""
    printed = shell([script.name], script.parent, DEBUG="4")
    assert "{" in printed
    assert "*** " in printed
    assert printed.splitlines()[-1] == "18.0"


@pytest.mark.parametrize("level", ["1", "2", "3", "4", "5", "6", "7"])
def test_debug_has_seven_levels(script: Path, level: str) -> None:
    """Each level from 1 to 7 runs; kernel lines begin at 2 and source at 4."""
    printed = shell([script.name], script.parent, DEBUG=level)
    assert ("*** " in printed) == (int(level) >= 2)
    assert ("{" in printed) == (int(level) >= 4)
    assert printed.splitlines()[-1] == "18.0"


@pytest.mark.parametrize("setting", ["BEAM=2", "NOOPT=1", "SPEC=1", "SPEC=2"])
def test_settings_of_the_table_run(script: Path, setting: str) -> None:
    """Under each further setting of the page's table the result is the same."""
    name, value = setting.split("=")
    assert shell([script.name], script.parent, **{name: value}) == "18.0\n"


@pytest.mark.parametrize("setting", ["", "SPEC=2"])
def test_a_test_file_runs(tmp_path: Path, setting: str) -> None:
    """`python -m pytest test/test_tensor.py -xvs` passes, also with SPEC=2."""
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_tensor.py").write_text(
        "from tinygraft import Tensor\n\n\ndef test_add():\n    assert (Tensor([1]) + 2).tolist() == [3]\n"
    )
    settings = dict([setting.split("=")]) if setting else {}
    printed = shell(["-m", "pytest", "test/test_tensor.py", "-xvs"], tmp_path, **settings)
    assert "1 passed" in printed
