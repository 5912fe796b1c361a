"""Operators of ONNX: RNN, GRU and LSTM, in one direction or both, of sequences of different lengths.

What the three share is `_over_time`: it walks a sequence, and a cell computes the next state of one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.onnx.operator_table import operator, text, unrolled
from tinygraft.tensor.tensor import Tensor

StepOfCell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": Tensor.relu, "tanh": Tensor.tanh, "sigmoid": Tensor.sigmoid, "softsign": Tensor.softsign,
    "softplus": Tensor.softplus,
}  # fmt: skip
_WITH: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float]] = {  # with alpha and beta by default
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: (x < 0).where(x * a, x), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: (x >= a).where(x, 0), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: (x * b).tanh() * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: (x * a + b).clamp(0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: x.elu(a), 1.0, 0.0),
}


def _functions(names: Any, default: Sequence[str], count: int, alpha: Any, beta: Any, clip: float | None,
               ) -> list[Callable[[Tensor], Tensor]]:  # fmt: skip
    """Return the activations of all directions; alpha and beta are used up by those that take them.

    `names` None gives those of `default` for each of `count` directions; `clip` limits what each gets. Raises
    FileFormatError for an unknown name.
    """
    alphas, betas = list(alpha or ()), list(beta or ())
    found = []
    for name in [text(each).lower() for each in names] if names else [*default] * count:
        if name in _PLAIN:
            found.append(_clipped(_PLAIN[name], clip))
        elif name in _WITH:
            function, a, b = _WITH[name]
            a, b = alphas.pop(0) if alphas else a, betas.pop(0) if betas else b
            found.append(_clipped(lambda x, f=function, a=a, b=b: f(x, a, b), clip))  # type: ignore[misc]
        else:
            raise FileFormatError(f"there is no activation {name!r} of a recurrent operator")
    return found


def _clipped(function: Callable[[Tensor], Tensor], clip: float | None) -> Callable[[Tensor], Tensor]:
    """A function of what is first limited to -clip and clip."""
    return function if clip is None else lambda x: function(x.clamp(-clip, clip))


def _over_time(x: Tensor, states: tuple[Tensor, ...], lengths: Tensor | None, cell: StepOfCell, backward: bool,
               ) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """The first state after each step of x (time, batch, ...), and all states after the last.

    A sequence that has ended keeps its states, and its outputs are 0. A backward one begins at its own end.
    """
    count = unrolled(x.shape[0], "a recurrent operator")
    outputs: list[Tensor] = [x] * count
    for step in reversed(range(count)) if backward else range(count):
        after = cell(x[step], states)
        outputs[step] = after[0]
        if lengths is not None:
            inside = (lengths > step).reshape(-1, 1)
            outputs[step] = inside.where(after[0], 0)
            after = tuple(inside.where(new, old) for new, old in zip(after, states, strict=True))
        states = after
    return outputs[0].stack(*outputs[1:]), states


def _directions(
    x: Tensor, direction: bytes, layout: int, starts: Sequence[Tensor | None], hidden: int, lengths: Tensor | None,
    cells: Sequence[StepOfCell], state_count: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the outputs of all steps (time, directions, batch, hidden), then the last states.

    These are (directions, batch, hidden). Each of `cells` is a direction. With `layout` batch is the first axis of x,
    of the states and of the results. Raises FileFormatError for an unknown direction.
    """
    x = x.transpose(0, 1) if layout else x
    name = text(direction)
    if name not in ("forward", "reverse", "bidirectional"):
        raise FileFormatError(f"a recurrent operator has no direction {name!r}")
    every, last = [], []
    for number, cell in enumerate(cells):
        states = []
        for start in starts:
            zero = Tensor.zeros(1, hidden, dtype=x.dtype, device=x.device).expand(x.shape[1], hidden)
            states.append(zero if start is None else start[:, number] if layout else start[number])
        y, after = _over_time(x, tuple(states), lengths, cell, name == "reverse" or number == 1)
        every.append(y)
        last.append(after)
    y = every[0].stack(*every[1:], dim=1)  # (time, directions, batch, hidden)
    finals = [last[0][i].stack(*(each[i] for each in last[1:])) for i in range(state_count)]
    if layout:
        y, finals = y.permute(2, 0, 1, 3), [each.transpose(0, 1) for each in finals]
    return y, *finals


def _parts(b: Tensor | None, number: int, hidden: int, gates: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the biases of direction `number`, of the input and of the state, each (gates * hidden,).

    They are zeros where `b` is None.
    """
    if b is None:
        zero = Tensor.zeros(gates * hidden, dtype=like.dtype, device=like.device)
        return zero, zero
    return b[number, : gates * hidden], b[number, gates * hidden :]


def _lengths(sequence_lens: Tensor | None) -> Tensor | None:
    """Return the lengths as int64, None for none."""
    return None if sequence_lens is None else sequence_lens.cast(dtypes.int64)


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: bytes = b"forward",
    hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the outputs and the last state of H = f(x W + H R + b).

    x is (time, batch, input), w (directions, hidden, input), r (directions, hidden, hidden), b (directions, 2 *
    hidden). The results are those of `_directions`.
    """
    count, hidden = int(w.shape[0]), int(r.shape[-1])
    functions = _functions(activations, ["tanh"], count, activation_alpha, activation_beta, clip)

    def cell_of(number: int) -> StepOfCell:
        of_input, of_state = _parts(b, number, hidden, 1, x)

        def cell(now: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            before = now.matmul(w[number].T) + states[0].matmul(r[number].T) + of_input + of_state
            return (functions[number](before),)

        return cell

    cells = [cell_of(number) for number in range(count)]
    return _directions(x, direction, layout, [initial_h], hidden, _lengths(sequence_lens), cells, 1)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: bytes = b"forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the outputs and the last state of gated recurrent units; the gates are update, reset, hidden.

    The shapes are those of `rnn`, with 3 * hidden rows. With linear_before_reset the reset gate scales the product with
    the state, else the state.
    """
    count, hidden = int(w.shape[0]), int(r.shape[-1])
    functions = _functions(activations, ["sigmoid", "tanh"], count, activation_alpha, activation_beta, clip)

    def cell_of(number: int) -> StepOfCell:
        f, g = functions[2 * number], functions[2 * number + 1]
        of_input, of_state = (part.split(hidden) for part in _parts(b, number, hidden, 3, x))
        wz, wr, wh = w[number].split(hidden)
        rz, rr, rh = r[number].split(hidden)

        def cell(now: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = states
            update = f(now.matmul(wz.T) + h.matmul(rz.T) + of_input[0] + of_state[0])
            reset = f(now.matmul(wr.T) + h.matmul(rr.T) + of_input[1] + of_state[1])
            if linear_before_reset:
                new = g(now.matmul(wh.T) + reset * (h.matmul(rh.T) + of_state[2]) + of_input[2])
            else:
                new = g(now.matmul(wh.T) + (reset * h).matmul(rh.T) + of_state[2] + of_input[2])
            return ((1 - update) * new + update * h,)

        return cell

    cells = [cell_of(number) for number in range(count)]
    return _directions(x, direction, layout, [initial_h], hidden, _lengths(sequence_lens), cells, 1)


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, p: Tensor | None = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: bytes = b"forward", hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the outputs and the last states of long short-term memory.

    The gates are input, output, forget, cell, of 4 * hidden rows in the shapes of `rnn`; `p` (directions, 3 * hidden)
    are peepholes of input, output, forget. With input_forget the forget gate is 1 minus the input gate.
    """
    count, hidden = int(w.shape[0]), int(r.shape[-1])
    functions = _functions(activations, ["sigmoid", "tanh", "tanh"], count, activation_alpha, activation_beta, clip)

    def cell_of(number: int) -> StepOfCell:
        f, g, after = functions[3 * number : 3 * number + 3]
        of_input, of_state = _parts(b, number, hidden, 4, x)
        peep = p[number].split(hidden) if p is not None else None

        def cell(now: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            h, c = states
            gates = now.matmul(w[number].T) + h.matmul(r[number].T) + of_input + of_state
            entry, out, forget, new = gates.split(hidden, dim=-1)
            entry = f(entry + peep[0] * c if peep else entry)
            forget = 1 - entry if input_forget else f(forget + peep[2] * c if peep else forget)
            c = forget * c + entry * g(new)
            out = f(out + peep[1] * c if peep else out)
            return out * after(c), c

        return cell

    cells = [cell_of(number) for number in range(count)]
    starts = [initial_h, initial_c]
    return _directions(x, direction, layout, starts, hidden, _lengths(sequence_lens), cells, 2)
