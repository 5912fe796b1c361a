"""Recurrent layers: LSTM, GRU and RNN, with several layers, both directions, dropout between layers and lengths.

In: a sequence (L, N, input_size), or (N, L, input_size) with batch_first, or (L, input_size), and the first state.
Out: the output of the last layer at each step, and the last state of each layer. The products with x of all steps are
one; the steps are written one after the other, so that a sequence of another length is another graph. Calls with the
same shapes repeat that graph by a template (tensor/templates.py): 32 steps of an LSTM are 1,500 nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.helpers import warn_user
from tinygraft.nn.cells import check_nonlinearity, check_states, gru_step, lstm_step, rnn_step
from tinygraft.nn.described import Described
from tinygraft.nn.parameter import uniform
from tinygraft.tensor.autocast import narrowed
from tinygraft.tensor.data.from_python import array_of
from tinygraft.tensor.primitives import index_checks
from tinygraft.tensor.primitives.size_math import as_integers
from tinygraft.tensor.templates import templated
from tinygraft.tensor.tensor import Tensor

# measured: forward, 32 steps of 32 x 128, 64 of 16 x 256 and 16 of 64 x 512 take 2 to 17 % less (2026-11-24, two
# cores of an AMD EPYC); assumed: that a copy pays from 4 steps on
COPIED = 4  # steps from which the weight of h is copied in the order in which it is read
States = list[Tensor]  # of one layer and direction: [h], or [h, c]


def _lstm(from_x: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
    """Return the next [h, c]; the bias is a part of `from_x`."""
    h, c = states
    return list(lstm_step(from_x + h.matmul(weight), c))


def _gru(from_x: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
    """Return the next [h]; `bias` is that of h, which a gate scales."""
    return [gru_step(from_x, states[0].linear(weight, bias), states[0])]


def _tanh(from_x: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
    """Return the next [h]."""
    return [rnn_step(from_x + states[0].matmul(weight), "tanh")]


def _relu(from_x: Tensor, states: States, weight: Tensor, bias: Tensor | None) -> States:
    """Return the next [h]."""
    return [rnn_step(from_x + states[0].matmul(weight), "relu")]


# given: by names, as a template (tensor/templates.py) is found by numbers and strings beside tensors
STEPS: dict[str, Callable[[Tensor, States, Tensor, Tensor | None], States]] = {
    "lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu,
}  # fmt: skip


@templated
def _all_steps(
    from_x: Tensor, weight: Tensor, bias: Tensor | None, valid: Tensor | None, first: States | int, dtype: DType,
    step: str, backwards: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Go through all steps of one layer in one direction; return the outputs (L, N, hidden) and the last states.

    `from_x` is (L, N, gates * hidden), `weight` that of h, (hidden, gates * hidden), `valid` what `_valid` returns, or
    None. `first` has the first states; a number stands for so many that are zeros of `dtype`. `backwards` begins at the
    last step. `step` names one of STEPS.
    """
    outputs, steps = [], range(from_x.shape[0])
    if isinstance(first, int):
        shape = from_x.shape[1], weight.shape[0]
        first = [Tensor.zeros(*shape, dtype=dtype, device=from_x.device, requires_grad=False)] * first
    states = first
    if len(steps) >= COPIED:
        weight = weight.contiguous()  # in the order in which the product of each step reads it
    for number in reversed(steps) if backwards else steps:
        new = STEPS[step](from_x[number], states, weight, bias)
        output = new[0]
        if valid is not None:  # after its end a sequence keeps its state, and has zeros
            new = [valid[number].where(after, before) for after, before in zip(new, states, strict=True)]
            output = valid[number].where(output, 0)
        states = new
        outputs.append(output)
    if backwards:
        outputs.reverse()
    return outputs[0].stack(*outputs[1:]), *states


class _Recurrent(Described):
    """The weights of all layers by PyTorch's names, the order of the steps, and the checks.

    A subclass has GATES (rows of weights, in hidden_size), STATES (1: h, 2: h and c) and `_step_name`. Raises
    ShapeError for a size below 1, ValueError for a dropout outside [0, 1].
    """

    GATES: int = 1
    STATES: int = 1

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
        bidirectional: bool,
    ) -> None:  # fmt: skip
        what = type(self).__name__
        input_size, hidden_size, num_layers = as_integers((input_size, hidden_size, num_layers), what)
        if input_size < 1 or hidden_size < 1 or num_layers < 1:
            raise ShapeError(
                f"{what} needs sizes and layers of at least 1, got {(input_size, hidden_size, num_layers)}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"{what} needs a dropout from 0 to 1, got {dropout}")
        if dropout and num_layers == 1:
            warn_user(f"{what} has one layer, and dropout={dropout} is between layers: it does nothing", UserWarning)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        bound, rows, directions = 1 / math.sqrt(hidden_size), self.GATES * hidden_size, 2 if bidirectional else 1
        for layer in range(num_layers):
            for end in ("", "_reverse")[:directions]:
                width = input_size if layer == 0 else hidden_size * directions
                setattr(self, f"weight_ih_l{layer}{end}", uniform(bound, (rows, width)))
                setattr(self, f"weight_hh_l{layer}{end}", uniform(bound, (rows, hidden_size)))
                for name in ("ih", "hh") if bias else ():
                    setattr(self, f"bias_{name}_l{layer}{end}", uniform(bound, (rows,)))

    def _from_x(self, x: Tensor, end: str) -> Tensor:
        """Return what x adds to all gates, (L, N, gates * hidden), for all steps at once.

        It is stored, since each step reads a part. `end` is the end of the names of weights, such as "_l0" or
        "_l0_reverse".
        """
        bias = self._biases(end) if self.bias else None
        return x.linear(getattr(self, f"weight_ih{end}").transpose(), bias).contiguous()

    def _biases(self, end: str) -> Tensor:
        """Return what is added to the gates of x: both biases, where they are only added."""
        total: Tensor = getattr(self, f"bias_ih{end}") + getattr(self, f"bias_hh{end}")
        return total

    def _step_name(self) -> str:
        """Return which of STEPS this layer has."""
        raise NotImplementedError(f"{type(self).__name__} does not say its step")

    def _step_bias(self, end: str) -> Tensor | None:
        """Return the bias that is added in each step, to the product with h; None where there is none."""
        return None

    def _run(self, x: Tensor, initial: Sequence[Tensor] | None, lengths: Any) -> tuple[Tensor, States]:
        """Return (output, last states), with the axes of the arguments. Raises as the class says.

        `initial` has h, or h and c; None is zeros. `lengths` None counts all steps.
        """
        self._check_input(x)
        batched = x.ndim == 3
        x = x.transpose(0, 1) if batched and self.batch_first else x if batched else x.unsqueeze(1)
        valid = None if lengths is None else self._valid(x, lengths)
        if valid is not None:
            x = valid.where(x, 0)  # also what gradients are multiplied with: NaN in the padding goes nowhere
        first = None if initial is None else self._initial(x, initial, batched)
        last: list[States] = []
        directions = 2 if self.bidirectional else 1
        for layer in range(self.num_layers):
            if layer:
                x = x.dropout(self.dropout)
            outputs = []
            for direction, end in enumerate((f"_l{layer}", f"_l{layer}_reverse")[:directions]):
                number = layer * directions + direction
                states = None if first is None else [state[number] for state in first]
                found, ended = self._direction(x, states, end, direction == 1, valid)
                outputs.append(found)
                last.append(ended)
            x = outputs[0].cat(outputs[1], dim=-1) if directions == 2 else outputs[0]
        ends = [each[0].stack(*each[1:]) for each in ([states[n] for states in last] for n in range(self.STATES))]
        x, *ends = narrowed(x, *ends)  # between steps c stays as exact as it is
        if not batched:
            return x.squeeze(1), [state.squeeze(1) for state in ends]
        return (x.transpose(0, 1) if self.batch_first else x), ends

    def _direction(
        self, x: Tensor, states: States | None, end: str, backwards: bool, valid: Tensor | None
    ) -> tuple[Tensor, States]:
        """Go through all steps of one layer in one direction; return the outputs (L, N, hidden) and the last states.

        `x` is (L, N, features), `valid` what `_valid` returns, or None. `states` None is zeros. `backwards` begins at
        the last step.
        """
        weight, bias = getattr(self, f"weight_hh{end}").transpose(), self._step_bias(end)
        first = self.STATES if states is None else states
        outputs, *last = cast(tuple[Tensor, ...], _all_steps(
            self._from_x(x, end), weight, bias, valid, first, x.dtype, self._step_name(), backwards
        ))  # fmt: skip
        return outputs, last

    def _check_input(self, x: Tensor) -> None:
        """Raise ShapeError unless `x` has the axes and features that the class says, and a known number of steps."""
        form = "(N, L, {})" if self.batch_first else "(L, N, {})"
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size or 0 in x.shape:
            raise ShapeError(
                f"{type(self).__name__} needs x {form.format(self.input_size)} or (L, {self.input_size}), with a step "
                f"at least, got shape {x.shape}\n  made at {x._where()}"
            )
        steps = x.shape[1 if x.ndim == 3 and self.batch_first else 0]
        if not isinstance(steps, int):
            raise ShapeError(
                f"{type(self).__name__} writes its steps one by one, and needs a number of them, not {x.shape}"
            )

    def _valid(self, x: Tensor, lengths: Any) -> Tensor:
        """Return (L, N, 1) of bools: whether a step is before the end of its sequence.

        Raises DTypeError for lengths that are no integers, ShapeError for another number of them, and ValueError for a
        number that is known, in a list or in memory of the host, and is not from 1 to L.
        """
        what, (steps, batch) = type(self).__name__, x.shape[:2]
        known: Any = None
        if isinstance(lengths, Tensor):
            given, known = lengths, index_checks.known_array(lengths)
        else:
            known = array_of(lengths)
            if known.dtype.kind not in "iu":  # as for a tensor: 5.0 is no integer, and nor is True
                raise DTypeError(f"{what} needs lengths of integers, got {lengths!r}")
            given = Tensor(known, device=x.device)
        if not dtypes.is_int(given.dtype):
            raise DTypeError(f"{what} needs lengths of integers, got {given.dtype}")
        if given.shape != (batch,):
            raise ShapeError(f"{what} needs {batch} lengths, one for each sequence, got {given.shape}")
        if known is not None and not ((known >= 1) & (known <= int(steps))).all():
            raise ValueError(f"{what} of {steps} steps needs lengths from 1 to {steps}, got {known.tolist()}")
        numbers = Tensor.arange(int(steps), device=x.device).reshape(steps, 1, 1)
        return numbers < given.to(x.device).reshape(1, batch, 1)

    def _initial(self, x: Tensor, given: Sequence[Tensor], batched: bool) -> States:
        """Return the first states, (layers * directions, N, hidden) each.

        Raises ShapeError for a state of another shape; without a batch it has no axis N. Raises DTypeError for what is
        no tensor, and ShapeError where h and c are no pair.
        """
        check_states(type(self).__name__, self.STATES, given)
        count = self.num_layers * (2 if self.bidirectional else 1)
        shape = (count, x.shape[1], self.hidden_size)
        wanted = shape if batched else (count, self.hidden_size)
        for name, state in zip(("h", "c"), given, strict=False):
            if state.shape != wanted:
                raise ShapeError(
                    f"{type(self).__name__} needs {name} {wanted}, got shape {state.shape}\n  made at {state._where()}"
                )
        return [state if batched else state.unsqueeze(1) for state in given]


class LSTM(_Recurrent):
    """A long short-term memory over a sequence: lstm(x, (h, c)) -> (output, (h, c)).

    x is (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output has hidden_size in place of
    input_size, or twice that where bidirectional: first the forward direction. h and c are (num_layers * directions, N,
    hidden_size), zeros where they are not given. lengths, a list of ints or a tensor of integers (N,), says how many
    steps of each sequence count, as packed sequences do in PyTorch: the output is zero after them, h and c are
    those at the last one, and the reverse direction begins there. dropout is applied between layers, in training mode.

    Weights are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ... and these with _reverse, with gates in the order
    of LSTMCell, all uniform in +-1/sqrt(hidden_size) at first. Raises ShapeError where shapes do not fit, ValueError
    for a dropout outside [0, 1] and for a length in a list that is no number of steps. Source: LSTMCell's.

    >>> from tinygraft import Tensor, nn
    >>> output, (h, c) = nn.LSTM(3, 4, num_layers=2, batch_first=True)(Tensor.rand(5, 7, 3), lengths=[7, 5, 2, 1, 3])
    >>> output.shape, h.shape, c.shape
    ((5, 7, 4), (2, 5, 4), (2, 5, 4))
    """

    GATES: int = 4
    STATES: int = 2

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def __call__(
        self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None, lengths: Sequence[int] | Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the outputs and the last (h, c)."""
        output, (h, c) = self._run(x, hc, lengths)
        return output, (h, c)

    def _step_name(self) -> str:
        """Return the step of [h, c]."""
        return "lstm"


class GRU(_Recurrent):
    """A gated recurrent unit over a sequence: gru(x, h) -> (output, h), with everything as in LSTM but for c.

    Gates are in the order of GRUCell, whose source it has.

    >>> from tinygraft import Tensor, nn
    >>> output, h = nn.GRU(3, 4, bidirectional=True)(Tensor.rand(7, 5, 3))
    >>> output.shape, h.shape
    ((7, 5, 8), (2, 5, 4))
    """

    GATES: int = 3

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def __call__(
        self, x: Tensor, h: Tensor | None = None, lengths: Sequence[int] | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs and the last h."""
        output, (last,) = self._run(x, None if h is None else [h], lengths)
        return output, last

    def _biases(self, end: str) -> Tensor:
        """Return the bias of x alone: that of h is scaled by a gate, and added in `_step`."""
        bias: Tensor = getattr(self, f"bias_ih{end}")  # that of h is scaled by a gate
        return bias

    def _step_bias(self, end: str) -> Tensor | None:
        """Return the bias of h."""
        bias: Tensor | None = getattr(self, f"bias_hh{end}") if self.bias else None
        return bias

    def _step_name(self) -> str:
        """Return the step of [h]."""
        return "gru"


class RNN(_Recurrent):
    """A plain recurrent network over a sequence: rnn(x, h) -> (output, h), with everything as in LSTM but for c.

    nonlinearity is tanh or relu: ValueError for another one. Source: RNNCell's.

    >>> from tinygraft import Tensor, nn
    >>> output, h = nn.RNN(3, 4)(Tensor.rand(7, 3))
    >>> output.shape, h.shape
    ((7, 4), (1, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
    ) -> None:  # fmt: skip
        check_nonlinearity("RNN", nonlinearity)
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def __call__(
        self, x: Tensor, h: Tensor | None = None, lengths: Sequence[int] | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs and the last h."""
        output, (last,) = self._run(x, None if h is None else [h], lengths)
        return output, last

    def _step_name(self) -> str:
        """Return the step of [h], by its nonlinearity."""
        return self.nonlinearity
