"""Models as PyTorch exports them: equal to PyTorch, with a symbolic batch, and captured by TinyJit."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, Variable
from tinygraft import onnx as tinygraft_onnx

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class Images(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Convolutions, a residual connection, a pool, a resize."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 8, 3, groups=8, padding=1), torch.nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        """Scores of images."""
        x = torch.relu(self.norm(self.first(x)))
        x = torch.nn.functional.max_pool2d(x + torch.nn.functional.hardswish(self.second(x)), 2)
        x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
        return self.last(x.mean((2, 3)))


class Words(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A layer of a transformer, whose shapes are computed by the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x: Any) -> Any:
        """Scores of words."""
        places = torch.arange(x.shape[1])[None, :, None] * 0.01
        return self.last(self.layer(self.table(x) + places))


class Steps(torch.nn.Module):  # type: ignore[name-defined,misc]
    """An LSTM in both directions, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)
        self.second = torch.nn.GRU(12, 5, batch_first=True)

    def forward(self, x: Any) -> Any:
        """The outputs of all steps."""
        return self.second(self.first(x)[0])[0].cumsum(1)


CASES = {
    "images": (Images, lambda: torch.randn(3, 3, 16, 16)),
    "words": (Words, lambda: torch.randint(0, 50, (3, 7))),
    "steps": (Steps, lambda: torch.randn(3, 3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_pytorch_exports_is_equal(name: str) -> None:
    """For a batch that is a number, one that is symbolic, and in replays."""
    torch.manual_seed(0)
    make, draw = CASES[name]
    layer, x = make().eval(), draw()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            layer, (x,), file, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
        )
    model = tinygraft_onnx.load(file.getvalue())
    with torch.no_grad():
        expected = layer(x).numpy()
    np.testing.assert_allclose(model.run(None, {"x": x.numpy()})[0].numpy(), expected, rtol=1e-4, atol=1e-5)
    batch, padded = Variable("batch", 1, 4), np.concatenate([x.numpy(), x.numpy()[:1]])
    found = model.run(None, {"x": Tensor(padded)[: batch.bind(3)]})[0]
    assert not isinstance(found.shape[0], int)
    np.testing.assert_allclose(found.sum(0).numpy(), expected.sum(0), rtol=1e-4, atol=1e-5)
    step = TinyJit(lambda x: model.run(None, {"x": x})[0].realize())
    for shift in range(3):
        with torch.no_grad():
            expected = layer(x.roll(shift, 0)).numpy()
        found = step(Tensor(np.roll(x.numpy(), shift, 0)).realize())
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert "kinds of calls captured: 1" in repr(step)
