"""LSTM, GRU, RNN and their cells are PyTorch's: values, gradients, lengths, names; and what they refuse."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, Variable, dtypes, nn
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor import templates

torch = pytest.importorskip("torch")

KINDS = ["LSTM", "GRU", "RNN"]
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep, both ways": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "three, no bias": {"num_layers": 3, "bias": False},
}


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers of that shape, float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def pair(kind: str, **options: Any) -> tuple[Any, Any]:
    """A layer of PyTorch, and ours with its state_dict, which is loaded by names."""
    theirs = getattr(torch.nn, kind)(3, 4, **options)
    ours = getattr(nn, kind)(3, 4, **options)
    state = {name: Tensor(value.numpy()) for name, value in theirs.state_dict().items()}
    nn.state.load_state_dict(ours, state, verbose=False)
    return ours, theirs


def flat(result: Any) -> list[Any]:
    """All tensors of a result, in order."""
    return [t for part in result for t in flat(part)] if isinstance(result, tuple) else [result]


def close(ours: Any, theirs: Any) -> None:
    """All tensors of two results are equal."""
    for mine, its in zip(flat(ours), flat(theirs), strict=True):
        np.testing.assert_allclose(mine.numpy(), its.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_pytorchs(kind: str) -> None:
    """Without a first state."""
    ours, theirs = pair(kind)
    close(ours(Tensor(numbers(3, 2, 3))), theirs(torch.tensor(numbers(3, 2, 3))))


ALL = [pytest.param(kind, form, marks=[pytest.mark.slow] if (kind, form) != ("LSTM", "plain") else [], id=f"{kind} {form}")
       for kind in KINDS for form in FORMS]  # fmt: skip


@pytest.mark.parametrize(("kind", "form"), ALL)
def test_values_and_gradients_are_pytorchs(kind: str, form: str) -> None:
    """With a first state and without; of all weights and the input."""
    ours, theirs = pair(kind, **FORMS[form])
    x, its_x = Tensor(numbers(3, 2, 3), requires_grad=True), torch.tensor(numbers(3, 2, 3), requires_grad=True)
    layers = FORMS[form].get("num_layers", 1) * (2 if "bidirectional" in FORMS[form] else 1)
    batch = 3 if FORMS[form].get("batch_first") else 2
    h, c = numbers(layers, batch, 4, seed=1), numbers(layers, batch, 4, seed=2)
    first = (Tensor(h), Tensor(c)) if kind == "LSTM" else Tensor(h)
    its_first = (torch.tensor(h), torch.tensor(c)) if kind == "LSTM" else torch.tensor(h)
    close(ours(x), theirs(its_x))
    mine, its = ours(x, first), theirs(its_x, its_first)
    close(mine, its)
    weights = nn.state.get_state_dict(ours)
    for weight in weights.values():
        weight.requires_grad = True
    sum((t.square().sum() for t in flat(mine)), Tensor(0.0)).backward()
    sum(t.square().sum() for t in flat(its)).backward()
    np.testing.assert_allclose(x.grad.numpy(), its_x.grad.numpy(), rtol=1e-3, atol=1e-5)
    for name, weight in theirs.named_parameters():
        np.testing.assert_allclose(weights[name].grad.numpy(), weight.grad.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTM", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("GRU", "RNN"))])
def test_lengths_are_packed_sequences(kind: str) -> None:
    """Zeros after the end, states at the end, and the reverse direction from there; also where lengths are a tensor."""
    ours, theirs = pair(kind, num_layers=2, bidirectional=True)
    x, lengths = numbers(3, 4, 3), [3, 2, 1, 2]
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), lengths, enforce_sorted=False)
    output, last = theirs(packed)
    output, _ = torch.nn.utils.rnn.pad_packed_sequence(output)
    close(ours(Tensor(x), lengths=lengths), (output, last))
    close(ours(Tensor(x), lengths=Tensor(lengths)), (output, last))


@pytest.mark.parametrize("kind", ["RNN"])
def test_a_sequence_without_a_batch(kind: str) -> None:
    """(L, input) in, (L, hidden) out."""
    ours, theirs = pair(kind, num_layers=2)
    close(ours(Tensor(numbers(5, 3))), theirs(torch.tensor(numbers(5, 3))))


def test_relu() -> None:
    """The other nonlinearity, of layer and cell."""
    for kind in ("RNN", "RNNCell"):
        ours, theirs = pair(kind, nonlinearity="relu")
        x = numbers(5, 3) if kind == "RNNCell" else numbers(2, 5, 3)
        close(ours(Tensor(x)), theirs(torch.tensor(x)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["GRUCell", "RNNCell", "LSTMCell"])
def test_cells_are_pytorchs(kind: str, bias: bool) -> None:
    """Two steps, the first without a state."""
    ours, theirs = pair(kind, bias=bias)
    state = its = None
    for seed in range(2):
        x = numbers(2, 3, seed=seed)
        state, its = ours(Tensor(x), state), theirs(torch.tensor(x), its)
        close(state, its)


@pytest.mark.parametrize("kind", ["LSTM", "GRUCell", *(pytest.param(kind, marks=pytest.mark.slow)
                                  for kind in ("GRU", "RNN", "LSTMCell", "RNNCell"))])  # fmt: skip
def test_first_values_are_pytorchs(kind: str) -> None:
    """All uniform within the same bounds, with the same names and shapes in the same order of names."""
    Tensor.manual_seed(5)  # of 64 numbers, the greatest is below 0.9 once in 850 times
    ours, theirs = getattr(nn, kind)(7, 64), getattr(torch.nn, kind)(7, 64).state_dict()
    mine = nn.state.get_state_dict(ours)
    assert {name: t.shape for name, t in mine.items()} == {name: tuple(t.shape) for name, t in theirs.items()}
    for t in mine.values():
        found = t.numpy() * math.sqrt(64)
        assert 0.9 < np.abs(found).max() <= 1
        assert abs((found**2).mean() - 1 / 3) < 0.1


def test_dropout_is_between_layers() -> None:
    """In training mode, and not after the last."""
    Tensor.manual_seed(0)
    lstm = nn.LSTM(3, 4, num_layers=2, dropout=1.0)
    x = Tensor(numbers(2, 2, 3))
    with Tensor.train():
        dropped, _ = lstm(x)
    one, (h, _) = lstm(x)
    same = lstm(Tensor(numbers(2, 2, 3, seed=9)))[0]
    with Tensor.train():
        again, _ = lstm(Tensor(numbers(2, 2, 3, seed=9)))
    np.testing.assert_array_equal(dropped.numpy(), again.numpy())  # the second layer sees zeros
    assert not np.allclose(one.numpy(), same.numpy())
    assert np.abs(dropped.numpy()).max() > 0
    assert h.shape == (2, 2, 4)


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float16, dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["GRU", pytest.param("LSTM", marks=pytest.mark.slow)])
def test_other_dtypes(kind: str, dtype: Any) -> None:
    """Weights and input of one dtype give that dtype, near PyTorch's in float64."""
    ours, theirs = pair(kind)
    for name, weight in nn.state.get_state_dict(ours).items():
        setattr(ours, name, weight.cast(dtype).realize())
    found = ours(Tensor(numbers(2, 2, 3)).cast(dtype))
    assert {t.dtype for t in flat(found)} == {dtype}
    wanted = theirs(torch.tensor(numbers(2, 2, 3)))
    room = {dtypes.float64: 1e-5, dtypes.float16: 5e-3, dtypes.bfloat16: 5e-2}[dtype]
    for mine, its in zip(flat(found), flat(wanted), strict=True):
        np.testing.assert_allclose(mine.float().numpy(), its.detach().numpy(), atol=room)


def test_a_training_step_is_captured() -> None:
    """LSTM, a linear layer and lengths as a tensor learn to tell the sign of the first number."""
    Tensor.manual_seed(1)
    lstm, head = nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 2)
    optimizer = nn.optim.Adam(nn.state.get_parameters([lstm, head]), lr=0.05)
    random = np.random.RandomState(0)
    x = random.standard_normal((32, 3, 1)).astype(np.float32)
    lengths, labels = random.randint(1, 4, 32).astype(np.int32), (x[:, 0, 0] > 0).astype(np.int32)

    @TinyJit
    @Tensor.train()
    def step(x: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        _, (h, _) = lstm(x, lengths=lengths)
        loss = head(h[0]).cross_entropy(labels).backward()
        return loss.realize(*optimizer.schedule_step())

    losses = [step(Tensor(x), Tensor(lengths), Tensor(labels)).item() for _ in range(25)]
    assert losses[-1] < 0.3 < losses[0]
    assert step.captured == 1


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 7)), ShapeError, r"LSTM needs x \(L, N, 3\) or \(L, 3\), with a step at least"),
    (lambda: nn.GRU(3, 4, batch_first=True)(Tensor.ones(5)), ShapeError, r"GRU needs x \(N, L, 3\) or \(L, 3\)"),
    (lambda: nn.GRU(3, 4)(Tensor.ones(5, 2, 3), Tensor.ones(2, 2, 4)), ShapeError, r"GRU needs h \(1, 2, 4\), got shape \(2, 2, 4\)"),
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 3), (Tensor.ones(1, 2, 4), Tensor.ones(1, 4))), ShapeError, r"LSTM needs c \(1, 2, 4\)"),
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 3), lengths=[5]), ShapeError, "LSTM needs 2 lengths, one for each sequence"),
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 3), lengths=[6, 1]), ValueError, "LSTM of 5 steps needs lengths from 1 to 5"),
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 3), lengths=Tensor([1.0, 2.0])), DTypeError, "LSTM needs lengths of integers"),
    (lambda: nn.LSTM(3, 4)(Tensor.ones(5, 2, 3), lengths=[1.0, 2.0]), DTypeError, "LSTM needs lengths of integers"),
    (lambda: nn.GRU(3, 4)(Tensor.ones(5, 2, 3), lengths=np.array([1.0, 2.0])), DTypeError, "GRU needs lengths of integers"),
    (lambda: nn.GRU(3, 4)(Tensor.ones(5, 2, 3), lengths=[True, False]), DTypeError, "GRU needs lengths of integers"),
    (lambda: nn.GRU(3, 4)(Tensor.ones(5, 2, 3), lengths=["a", "b"]), DTypeError, "GRU needs lengths of integers"),
    (lambda: nn.GRU(3, 4)(Tensor.ones(5, 2, 3), lengths=5), ShapeError, "GRU needs 2 lengths, one for each sequence"),
    (lambda: nn.LSTM(3, 0), ShapeError, r"LSTM needs sizes and layers of at least 1, got \(3, 0, 1\)"),
    (lambda: nn.LSTM(3, 4, dropout=1.5), ValueError, "LSTM needs a dropout from 0 to 1, got 1.5"),
    (lambda: nn.RNN(3, 4, nonlinearity="gelu"), ValueError, "RNN has the nonlinearity 'tanh' or 'relu', got 'gelu'"),
    (lambda: nn.GRUCell(3, 4)(Tensor.ones(2, 5)), ShapeError, r"GRUCell with weight_ih \(12, 3\) needs x \(N, 3\), got shape"),
    (lambda: nn.RNNCell(3, 4)(Tensor.ones(2, 3), Tensor.ones(1, 4)), ShapeError, r"RNNCell needs h \(2, 4\) beside x \(2, 3\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:30] for _, _, message in BAD])
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    """What does not fit is named."""
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_the_batch_may_be_symbolic(kind: Any) -> None:
    """The same numbers as for a batch of that size; the steps have to be a number."""
    layer, x, batch = kind(4, 3, batch_first=True), Tensor.rand(6, 5, 4), Variable("batch", 1, 6)
    found = layer(x[: batch.bind(2)])[0]
    np.testing.assert_allclose(found[:2].numpy(), layer(x[:2])[0].numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="writes its steps one by one"):
        layer(x[:, : Variable("steps", 1, 5).bind(2)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [[5, 9], [0, 5]])
def test_lengths_in_memory_are_checked_as_a_list_is(kind: str, wrong: list[int]) -> None:
    """The same error; lengths that are still to be computed are not read."""
    ours, x = pair(kind)[0], Tensor(numbers(5, 2, 3))
    said = rf"{kind} of 5 steps needs lengths from 1 to 5, got \[{wrong[0]}, {wrong[1]}\]"
    for lengths in (wrong, np.array(wrong), Tensor(wrong), Tensor(wrong, dtype="int64")):
        with pytest.raises(ValueError, match=said):
            ours(x, lengths=lengths)
    assert ours(x, lengths=Tensor(wrong) + 0)[0].shape == (5, 2, 4)
    ours(x, lengths=Tensor([5, 1]))


@pytest.mark.parametrize("within", [False, True], ids=["with gradients", "no_grad"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_a_layer_are_one_template(kind: str, form: str, within: bool) -> None:
    """The third call of the same shapes repeats the graph of all steps: eager sequences took twice the time in Python."""
    templates.clear()
    layer, x = getattr(nn, kind)(3, 4, **FORMS[form]), Tensor(numbers(5, 5, 3))
    with Tensor.no_grad() if within else contextlib.nullcontext():
        found = [layer(x)[0].numpy() for _ in range(4)]
        known = [template for key, template in templates._known.items() if key[0].__name__ == "_all_steps"]
    assert known and None not in known
    assert all((each == found[0]).all() for each in found[1:])


X, H = Tensor.zeros(2, 3, 4), Tensor.zeros(1, 3, 6)  # (steps, batch, features), (layers, batch, hidden)


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: nn.LSTM(4, 6)(X, H), ShapeError, "LSTM needs its state as a pair (h, c), got a tensor of shape (1, 3, 6)"),
    (lambda: nn.LSTM(4, 6)(X, (H,)), ShapeError, "LSTM needs its state as a pair (h, c), got (<"),
    (lambda: nn.LSTM(4, 6)(X, (H, None)), DTypeError, "LSTM needs c as a tensor, got None"),
    (lambda: nn.GRU(4, 6)(X, (H,)), DTypeError, "GRU needs h as a tensor, got (<"),
    (lambda: nn.RNN(4, 6)(X, np.zeros((1, 3, 6))), DTypeError, "RNN needs h as a tensor, got array("),
    (lambda: nn.LSTMCell(4, 1)(X[0, :1], Tensor([[0.0]])), ShapeError,
     "LSTMCell needs its state as a pair (h, c), got a tensor of shape (1, 1)"),
    (lambda: nn.LSTMCell(4, 6)(X[0], (H[0], H[0, :2])), ShapeError, "LSTMCell needs c (3, 6) beside x (3, 4), got shape (2, 6)"),
    (lambda: nn.GRUCell(4, 6)(X[0], np.zeros((3, 6))), DTypeError, "GRUCell needs h as a tensor, got array("),
])  # fmt: skip
def test_a_state_that_is_none(call: Any, error: type[Exception], said: str) -> None:
    """A tensor in place of a pair was taken apart by rows; a cell took one of a single 0 for no state."""
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_dropout_between_the_layers_of_one_layer_is_warned_of(name: str) -> None:
    """As PyTorch does: there is nothing between them."""
    with pytest.warns(UserWarning, match=f"{name} has one layer, and dropout=0.5 is between layers: it does nothing"):
        getattr(nn, name)(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(nn, name)(3, 4, num_layers=2, dropout=0.5)
