"""Layers print as the call that makes them, and say what was meant by a keyword or an argument that cannot be."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.described import Described

SHOWN = [
    (lambda: nn.Linear(3, 4), "Linear(in_features=3, out_features=4)"),
    (lambda: nn.Linear(3, 4, bias=False), "Linear(in_features=3, out_features=4, bias=False)"),
    (lambda: nn.Conv2d(3, 4, 3, padding=1), "Conv2d(in_channels=3, out_channels=4, kernel_size=3, padding=1)"),
    (lambda: nn.LSTM(3, 4, dropout=0.5), "LSTM(input_size=3, hidden_size=4, dropout=0.5)"),
    (lambda: nn.BatchNorm(3, momentum=None), "BatchNorm(sz=3, momentum=None)"),
    (lambda: nn.LayerNorm((3, 4)), "LayerNorm(normalized_shape=(3, 4))"),
    (lambda: nn.InstanceNorm(3), "InstanceNorm(num_features=3)"),
    (lambda: nn.TransformerEncoderLayer(8, 2), "TransformerEncoderLayer(d_model=8, nhead=2)"),
    (lambda: nn.GELU(), "GELU()"),
    (lambda: nn.Dropout(0.25), "Dropout(p=0.25)"),
    (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU()), nn.Sequential()),
        "Sequential(\n  0: Linear(in_features=3, out_features=4)\n  1: Sequential(\n    0: ReLU()\n  )\n"
        "  2: Sequential()\n)",
    ),
    (lambda: nn.optim.lr_scheduler.StepLR(nn.optim.SGD([Tensor([1.0])]), 3), "StepLR(step_size=3)"),
]


@pytest.mark.parametrize(("make", "shown"), SHOWN)
def test_a_layer_prints_as_its_call(make: Callable[[], Any], shown: str) -> None:
    """With the arguments that are not defaults; copies too."""
    layer = make()
    assert repr(layer) == shown
    if not shown.startswith("StepLR"):
        assert repr(copy.deepcopy(layer)) == repr(pickle.loads(pickle.dumps(layer))) == shown


def test_an_argument_that_was_set_later_is_shown_so() -> None:
    """As the layer uses it."""
    layer = nn.Dropout(0.5)
    layer.p = 0.125
    assert repr(layer) == "Dropout(p=0.125)"


def test_every_layer_prints_its_arguments() -> None:
    """None is left an object at an address, and none has more names in its state."""
    for name in nn.__all__:
        kind = getattr(nn, name)
        if inspect.isclass(kind) and kind is not nn.Sequential:
            assert issubclass(kind, Described), name
    assert list(nn.state.get_state_dict(nn.Linear(1, 1))) == ["weight", "bias"]
    assert list(inspect.signature(nn.Linear).parameters) == ["in_features", "out_features", "bias"]


def test_classes_of_users_are_as_they_are_written() -> None:
    """A subclass has its own constructor and call, unchanged."""

    class Scaled(nn.Linear):
        def __init__(self, size: int) -> None:
            super().__init__(size, size)

        def __call__(self, x: Any) -> Tensor:
            return super().__call__(Tensor(x)) * 2

    layer = Scaled(2)
    assert "__wrapped__" not in vars(Scaled.__init__) and layer(np.ones((1, 2), np.float32)).shape == (1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Scaled(sise=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Linear(3, 4, biass=False), "Linear() got an unexpected keyword argument 'biass'\n"
         "  hint: did you mean 'bias'?"),
        (lambda: nn.LSTM(3, 4, hidden=1), "LSTM() got an unexpected keyword argument 'hidden'\n  hint: it has "
         "input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional"),
        (lambda: nn.optim.SGD([Tensor([1.0])], momentun=0.9), "SGD() got an unexpected keyword argument 'momentun'\n"
         "  hint: did you mean 'momentum'?"),
        (lambda: nn.optim.lr_scheduler.StepLR(nn.optim.SGD([Tensor([1.0])]), stepsize=2),
         "StepLR() got an unexpected keyword argument 'stepsize'\n  hint: did you mean 'step_size'?"),
    ],
)  # fmt: skip
def test_keywords_that_do_not_exist(call: Callable[[], Any], message: str) -> None:
    """Of layers, optimizers and schedulers."""
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.Embedding(5, 2), nn.Sequential(nn.ReLU()), nn.LayerNorm(3)])
def test_arrays_are_answered_with_what_to_do(layer: Any) -> None:
    """A layer takes a Tensor; what is wrong with one of those is said as before."""
    first = layer[0] if isinstance(layer, nn.Sequential) else layer
    with pytest.raises(DTypeError) as caught:
        layer(np.ones((1, 3)))
    assert str(caught.value) == f"{type(first).__name__} takes a Tensor, got numpy.ndarray\n  hint: Tensor(x)"


@pytest.mark.parametrize("sizes", [(0, 3), (-1, 3), (3, -1)])
def test_a_linear_layer_has_features(sizes: tuple[int, int]) -> None:
    """The logarithm or quotient of none is no error that says it."""
    with pytest.raises(ShapeError, match=r"Linear needs at least one feature of its input, got \("):
        nn.Linear(*sizes)
