"""Training on two devices: the weights of every step are those of training on one, within float tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, events, nn
from tinygraft.errors import DeviceError
from tinygraft.nn.state import get_parameters, get_state_dict
from tinygraft.uop.uop import nodes_made

STEPS = 5
State = dict[str, Any]


DEVICES = sorted((name for name in Device.names() if name not in ("NULL", "PYTHON")), key=lambda name: name != "CPU")
# the first device has all of it; of others, which may compile slowly, a small network that is replayed
CASES = [(name, kind, jit) for name in DEVICES for kind in ("sgd", "adam") for jit in (False, True)
         if name == DEVICES[0] or (jit and kind == "sgd")]  # fmt: skip


@contextmanager
def two_of(device: str) -> Iterator[tuple[str, str]]:
    """The first two of a device, where it has as many; what names no device is on the first."""
    names = (device, f"{device}:1")
    for name in names:
        try:
            Device[name]
        except DeviceError as error:
            pytest.skip(str(error).partition("\n")[0])
    with Context(DEV=device):
        yield names


class Convnet:
    """Two convolutions with batch norm, and a linear layer; images of 8 x 8, ten classes."""

    def __init__(self) -> None:
        self.first, self.second = nn.Conv2d(1, 4, 3, bias=False), nn.Conv2d(4, 8, 3, bias=False)
        self.norms = [nn.BatchNorm(4), nn.BatchNorm(8)]
        self.last = nn.Linear(32, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = self.norms[0](self.first(x)).relu()
        x = self.norms[1](self.second(x)).relu().max_pool2d(2)
        return self.last(x.flatten(1))


class Small:
    """One convolution with batch norm, and a linear layer: what a device compiles that is slow at that."""

    def __init__(self) -> None:
        self.first, self.norm, self.last = nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm(2), nn.Linear(18, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        return self.last(self.norm(self.first(x)).relu().max_pool2d(2).flatten(1))


class Perceptron:
    """Three linear layers without convolutions: what is split between devices by its weights."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(64, 16), nn.Linear(16, 12), nn.Linear(12, 10)]

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


def by_batch(model: Any, names: tuple[str, ...]) -> None:
    """Every weight on both devices; batches will be cut."""
    for tensor in get_state_dict(model).values():
        tensor.shard_(names)


def by_weights(model: Any, names: tuple[str, ...]) -> None:
    """The first layer cut by its results, the second by its inputs, the third whole."""
    model.layers[0].weight.shard_(names, 0)
    model.layers[0].bias.shard_(names, 0)
    model.layers[1].weight.shard_(names, 1)
    for tensor in (model.layers[1].bias, model.layers[2].weight, model.layers[2].bias):
        tensor.shard_(names)


def optimizer(name: str, model: Any) -> Any:
    """One of two optimizers for all weights of a model."""
    weights = get_parameters(model)
    return nn.optim.Adam(weights, lr=0.01) if name == "adam" else nn.optim.SGD(weights, lr=0.05, momentum=0.9)


def batches(cut: Callable[[Tensor], Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Images and classes that can be learned; ten in a batch, so that halves are uneven to a vector."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(STEPS):
        classes = rng.integers(0, 10, 10).astype(np.int32)
        images = rng.random((10, 1, 8, 8), np.float32) + classes.reshape(10, 1, 1, 1) / 5
        made.append((cut(Tensor(images.astype(np.float32))).realize(), cut(Tensor(classes)).realize()))
    return made


def train(make: type, names: tuple[str, ...] | None, place: Any, cut: Any, kind: str, jit: bool
          ) -> tuple[list[float], State, Any]:  # fmt: skip
    """Losses, the state after the last step, and the step."""
    Tensor.manual_seed(3)
    model = make()
    Tensor.realize(*get_state_dict(model).values())
    if names:
        place(model, names)
    steps = optimizer(kind, model)

    @Tensor.train()
    def step(x: Tensor, y: Tensor) -> Tensor:
        steps.zero_grad()
        loss = model(x).sparse_categorical_crossentropy(y).backward()
        steps.step()
        return loss.realize()

    run = TinyJit(step) if jit else step
    losses = [run(x, y).item() for x, y in batches(cut if names else lambda t: t)]
    for name, tensor in get_state_dict(model).items():
        if names and tensor.sharding is None:  # copies of one value stay so, to the last bit
            parts = [part.base.realized for part in tensor.uop.base.src]
            first, second = (bytes(part.copy_out(memoryview(bytearray(part.nbytes)))) for part in parts)
            assert first == second, name
    return losses, {name: t.numpy() for name, t in get_state_dict(model).items()}, run


def agree(one: tuple[list[float], State, Any], both: tuple[list[float], State, Any]) -> None:
    """Losses and states are the same within float tolerance."""
    np.testing.assert_allclose(both[0], one[0], 1e-4)
    for name, value in one[1].items():
        np.testing.assert_allclose(both[1][name], value, 1e-3, 2e-4, err_msg=name)


@pytest.mark.parametrize(
    ("device", "kind", "jit"),
    [pytest.param(*case, marks=pytest.mark.slow if case[0] != DEVICES[0] else ()) for case in CASES],
)
def test_batches_cut_over_two_devices(device: str, kind: str, jit: bool) -> None:
    """A convolutional network with batch norm: each device has half of the batch, and gradients are combined."""
    with two_of(device) as two:
        model = Convnet if device == DEVICES[0] else Small
        one = train(model, None, None, None, kind, jit)
        both = train(model, two, by_batch, lambda t: t.shard(two, 0), kind, jit)
    agree(one, both)
    assert one[0][-1] < one[0][0]
    if jit:
        assert both[2].captured == 1


@pytest.mark.parametrize(("device", "kind", "jit"), [case for case in CASES if case[0] == DEVICES[0]])
def test_weights_cut_over_two_devices(device: str, kind: str, jit: bool) -> None:
    """Linear layers, of which each device has a part: one allreduce joins the second of them."""
    with two_of(device) as two:
        one = train(Perceptron, None, None, None, kind, jit)
        both = train(Perceptron, two, by_weights, lambda t: t.shard(two), kind, jit)
    agree(one, both)


@Context(VALIDATE=0)  # which runs the function in every call
def test_a_replayed_step_schedules_nothing() -> None:
    """A step on two devices is that of one on each, cut where an allreduce joins them; a replay only launches."""
    two = (DEVICES[0], f"{DEVICES[0]}:1")
    one = train(Convnet, None, None, None, "sgd", True)[2].kernels[0]
    run = train(Convnet, two, by_batch, lambda t: t.shard(two, 0), "sgd", True)[2]
    names = run.kernels[0]
    x, y = batches(lambda t: t.shard(two, 0))[0]
    seen: list[Any] = []
    stop = events.observe(seen.append, events.ScheduleEvent, events.CompileEvent)
    try:
        made = nodes_made()
        GlobalCounters.reset()
        run(x, y)
        launched, made = GlobalCounters.kernel_count, nodes_made() - made
    finally:
        stop()
    assert (seen, launched) == ([], len(names))
    assert made < 10  # the memory of the result, and how it lies
    # two copies for each of: the mean and the variance of two norms, the gradients of these, the loss and the number of
    # labels that it counts, and the gradients of eight weights
    assert names.count("copy") == 2 * (4 + 4 + 2 + 8)
    assert len(names) - names.count("copy") <= 4 * len(one)
