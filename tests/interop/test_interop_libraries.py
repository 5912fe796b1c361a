"""Tensors in other libraries and their values in tensors, as docs/interop.md promises, one library a test."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn
from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError


def test_numpy_reads_and_shares() -> None:
    """np.asarray has memory of its own in any dtype asked for; copy=False shares, or says that it cannot."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    own = np.asarray(t, dtype=np.int64)
    assert own.dtype == np.int64 and own.tolist() == [[1, 2], [3, 4]]
    changed = np.array(t)
    changed[0] = 9
    assert t.tolist() == [[1, 2], [3, 4]]
    shared = np.asarray(t, copy=False)
    t.assign(Tensor([[5.0, 6.0], [7.0, 8.0]])).realize()
    assert shared.tolist() == [[5, 6], [7, 8]]
    with pytest.raises(ValueError, match="^an array of int64 cannot share the memory of a tensor of dtypes.float$"):
        np.asarray(t, dtype=np.int64, copy=False)
    with pytest.raises(ValueError, match="^an array cannot share the memory of this tensor: "):
        np.asarray(t.cast("bfloat16"), copy=False)
    assert isinstance(np.ones(2, np.float32) + t, Tensor)


def test_the_buffer_protocol() -> None:
    """From Python 3.12 on memoryview(t) is what __buffer__ returns here too: the values, and nothing to write to."""
    t = Tensor([[1, 2], [3, 4]])
    view = memoryview(t) if sys.version_info >= (3, 12) else t.__buffer__(0)
    assert view.shape == (2, 2) and view.tolist() == [[1, 2], [3, 4]] and view.format == "i"
    with pytest.raises(BufferError, match=r"^a tensor is not written to through its buffer: use assign\(memoryview\)$"):
        t.__buffer__(1)


DTYPES = "bfloat16 float16 float32 float64 int8 uint16 int64 bool float8_e4m3fn float8_e5m2"


@pytest.mark.parametrize("name", DTYPES.split())
def test_torch_in_every_width(name: str) -> None:
    """By the constructor, by DLPack in both ways, and as parameters."""
    torch = pytest.importorskip("torch", reason="its tensors come and go here")
    theirs = torch.tensor([[1, 0], [1, 1]]).to(getattr(torch, name))
    for ours in (Tensor(theirs), Tensor.from_dlpack(theirs), Tensor(theirs.T.contiguous().T)):
        assert ours.tolist() == [[1, 0], [1, 1]]
        back = torch.from_dlpack(ours.contiguous().realize())
        assert back.dtype == theirs.dtype and torch.equal(back.float(), theirs.float())


def test_torch_parameters_and_state_dicts() -> None:
    """A Parameter gives its values, and takes ours; a state_dict is read as it is; gradients are no hindrance."""
    torch = pytest.importorskip("torch", reason="its parameters come and go here")
    layer = torch.nn.Linear(3, 2)
    assert Tensor(layer.weight).tolist() == layer.weight.tolist()
    ours = nn.Linear(3, 2)
    nn.state.load_state_dict(ours, layer.state_dict())
    assert ours.weight.tolist() == layer.weight.tolist()
    parameter = torch.nn.Parameter(torch.from_dlpack(ours.weight.detach() + 1))
    assert torch.allclose(parameter, layer.weight + 1)
    assert torch.as_tensor(ours.weight.numpy()).tolist() == layer.weight.tolist()
    assert Tensor(layer.weight * 2).tolist() == (layer.weight * 2).tolist()
    target = Tensor.zeros(2, 3).contiguous()
    assert target.copy_(layer.weight.double()).dtype is dtypes.float32
    assert target.tolist() == layer.weight.tolist()


def test_functions_of_torch_say_what_to_do_with_a_tensor() -> None:
    """Their own words are "must be Tensor, not Tensor". Operators of both work, whichever stands first."""
    torch = pytest.importorskip("torch", reason="its functions are given our tensors")
    x, one = Tensor([[1.0, -2.0]]), torch.ones(1, 2)
    share = "torch.from_dlpack(t) is a tensor of PyTorch in the same memory"
    for call, words in (
        (lambda: torch.nn.functional.relu(x), f"relu of PyTorch {{}}Tensor.relu does this here, and {share}"),
        (
            lambda: torch.nn.Linear(2, 3)(x),
            f"linear of PyTorch {{}}x.linear(weight.T, bias) does this here, and {share}",
        ),
        (lambda: torch.stack([x, x]), f"stack of PyTorch {{}}Tensor.stack does this here, and {share}"),
        (lambda: one.add_(x), f"add_ of PyTorch {{}}{share}"),
        (lambda: torch.pca_lowrank(x), f"pca_lowrank of PyTorch {{}}{share}"),
    ):
        with pytest.raises(DTypeError) as raised:
            call()
        assert str(raised.value) == words.format("was called with a Tensor of tinygraft\n  hint: ")
    assert [(one - x).tolist(), (x - one).tolist()] == [[[0.0, 3.0]], [[0.0, -3.0]]]
    assert (one == x).tolist() == [[True, False]]
    assert torch.tensor(x).tolist() == torch.from_dlpack(x).tolist() == [[1.0, -2.0]]
    assert not torch.is_tensor(x)


def test_copy_converts() -> None:
    """dtype, device and shape are those of the target; its memory stays, so that views and replays see it."""
    t = Tensor([[1, 2], [3, 4]]).realize()
    view = t[0]
    assert t.copy_(Tensor([7.9, -8.9])) is t and t.tolist() == [[7, -8]] * 2 and view.tolist() == [7, -8]
    assert t.copy_(np.eye(2)).tolist() == [[1, 0], [0, 1]] and t.copy_(5).tolist() == [[5, 5]] * 2
    assert t.copy_(Tensor([1, 2], device="PYTHON"), non_blocking=True).tolist() == [[1, 2]] * 2
    assert Tensor([1 + 2j, 3]).copy_(Tensor([5.0, 6.0])).tolist() == [5, 6]
    with pytest.raises(ShapeError, match=r"^cannot assign shape \(3,\) to a tensor of shape \(2, 2\)"):
        t.copy_(Tensor([1, 2, 3]))
    with pytest.raises(DTypeError, match="^cannot write None to a tensor"):
        t.copy_(None)


def test_scikit_learn_metrics_and_models() -> None:
    """They read tensors as arrays."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, confusion_matrix, roc_auc_score

    truth, found = Tensor([0, 1, 1, 0]), Tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    assert accuracy_score(truth, found.argmax(1)) == 0.75
    assert confusion_matrix(truth, found.argmax(1)).tolist() == [[2, 0], [1, 1]]
    assert roc_auc_score(truth, found[:, 1]) == 1.0
    assert LogisticRegression().fit(found, truth).predict(found).shape == (4,)


def test_pandas() -> None:
    """Columns and frames are tensors' data, and tensors are columns; text is refused with its dtype."""
    pandas = pytest.importorskip("pandas", reason="its columns come and go here")
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": ["x", "y", "z"]})
    assert Tensor(frame["a"]).tolist() == [1, 2, 3] and Tensor(frame["a"]).dtype is dtypes.int64
    assert Tensor(frame[["a", "b"]]).tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert Tensor(frame["a"].astype("category").cat.codes).tolist() == [0, 1, 2]
    assert pandas.Series(Tensor([1.0, 2.0]).numpy()).sum() == 3
    frame["d"] = Tensor([1, 2, 3]).numpy()
    assert pandas.DataFrame(Tensor([[1, 2], [3, 4]]).numpy(), columns=["a", "b"])["b"].tolist() == [2, 4]
    with pytest.raises(DTypeError, match="^a tensor cannot hold numpy's "):
        Tensor(frame["c"])


def test_matplotlib() -> None:
    """Lines, points, images and histograms of tensors."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    t = Tensor([1.0, 3.0, 2.0])
    figure, axes = plt.subplots()
    (line,) = axes.plot(t, t * 2)
    assert line.get_xydata().tolist() == [[1, 2], [3, 6], [2, 4]]
    assert axes.scatter(t, t, c=t).get_offsets().tolist() == [[1, 1], [3, 3], [2, 2]]
    assert axes.imshow(Tensor([[0.0, 1.0], [2.0, 3.0]])).get_array().tolist() == [[0, 1], [2, 3]]
    counts, _, _ = axes.hist(t, bins=2)
    assert counts.tolist() == [1, 2]
    axes.bar(range(3), t)
    axes.errorbar(t, t, yerr=t)
    figure.savefig(io.BytesIO())
    plt.close(figure)


def test_pillow() -> None:
    """Images are data, with height, width and channels; a tensor of bytes is an image by its array."""
    from PIL import Image

    image = Image.new("RGB", (3, 2), (1, 2, 3))
    t = Tensor(image)
    assert (t.shape, t.dtype, t[0, 0].tolist()) == ((2, 3, 3), dtypes.uint8, [1, 2, 3])
    assert Tensor(image.convert("L")).shape == (2, 3)
    assert Image.fromarray(t.numpy()).tobytes() == image.tobytes()


def test_tensorboard(tmp_path: Path) -> None:
    """Scalars, histograms, images and text of a writer, as of tensorboardX and of PyTorch, and read again."""
    from tensorboardX import SummaryWriter
    from tensorboardX.proto.event_pb2 import Event

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", Tensor([0.25]).mean().item(), 3)
        writer.add_scalar("number", float(Tensor(0.5)), 3)
        writer.add_histogram("weights", Tensor([1.0, 2.0, 2.0]).numpy(), 3)
        writer.add_image("digit", (nn.datasets.digits()[0][0] * 15).numpy(), 3)
    (file,) = tmp_path.iterdir()
    data, found = file.read_bytes(), {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + size])
        found |= {value.tag: value for value in event.summary.value}
        data = data[12 + size + 4 :]
    assert (found["loss"].simple_value, found["number"].simple_value) == (0.25, 0.5)
    assert found["weights"].histo.num == 3 and (found["digit"].image.height, found["digit"].image.width) == (8, 8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "fp8e4m3", "int64", "bool"])
def test_pickling_and_deepcopy(dtype: str) -> None:
    """Values, dtype, shape, device, requires_grad and gradient; a copy has memory of its own, a model keeps sharing."""
    t = Tensor([[1, 0], [1, 1]], dtype=dtype)
    if t.dtype.kind == "float":
        t.requires_grad = True
        t.grad = t.detach() * 1
    for protocol in (2, 4, 5):
        again: Any = pickle.loads(pickle.dumps(t, protocol))
        assert (again.tolist(), again.dtype, again.device, again.requires_grad) == (
            t.tolist(), t.dtype, t.device, t.requires_grad,
        )  # fmt: skip
        assert (again.grad is None) == (t.grad is None)
    copied = copy.deepcopy(t)
    copied.copy_(copied.detach() * 0)
    assert t.tolist() == [[1, 0], [1, 1]]
    layer = nn.Linear(2, 2)
    tied = copy.deepcopy({"a": layer, "b": layer.weight})
    assert tied["a"].weight is tied["b"] and tied["b"] is not layer.weight
    assert pickle.loads(pickle.dumps(layer)).weight.tolist() == layer.weight.tolist()


def test_a_gradient_of_torch_that_is_lost_is_warned_of() -> None:
    """Its .grad stayed None silently. A copy of a parameter is meant, and so is what no_grad or detach() says."""
    torch = pytest.importorskip("torch", reason="its tensors come and go here")
    x, t = torch.ones(3, requires_grad=True), Tensor([1.0, 2.0, 3.0], requires_grad=True)
    uses = [
        lambda x: x * t, lambda x: t * x, lambda x: t.maximum(x), lambda x: (t > 0).where(x, t), lambda x: t.dot(x),
        lambda x: t.smooth_l1_loss(x), lambda x: x @ t,
    ]  # fmt: skip
    said = r"^a tensor of PyTorch that requires a gradient is a constant here: .* none\n  hint: x.detach\(\) says"
    for use in uses:
        for lost in (x, x * 2):
            with pytest.warns(UserWarning, match=said) as caught:
                use(lost)
            assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(UserWarning, match=said):
        Tensor(x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for use in uses:
            use(x.detach())
            with torch.no_grad():
                use(x)
        Tensor(x), Tensor(torch.nn.Parameter(x)), t.assign(x.detach())


def test_the_warning_is_shown_once_a_line() -> None:
    """A loop of training would repeat it."""
    torch = pytest.importorskip("torch", reason="its tensors come and go here")
    x, t = torch.ones(3, requires_grad=True), Tensor([1.0, 2.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            x * t
        x * t
    assert len(caught) == 2
