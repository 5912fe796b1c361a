"""One step of a recurrent network: LSTMCell, GRUCell, RNNCell, and the formulas that the layers share with them."""

from __future__ import annotations

import math

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.described import Described
from tinygraft.nn.parameter import uniform
from tinygraft.tensor.autocast import narrowed
from tinygraft.tensor.templates import templated
from tinygraft.tensor.tensor import Tensor


@templated
def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new (h, c), each (..., hidden), from the old `c` and the sums of the gates (..., 4*hidden).

    The gates are input, forget, cell, output; their sums are those of x and of h with both biases.
    """
    i, f, g, o = gates.chunk(4, dim=-1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


@templated
def gru_step(from_x: Tensor, from_h: Tensor, h: Tensor) -> Tensor:
    """Return the new h (..., hidden) from the old `h` and the sums of the gates (..., 3*hidden), of x and of h apart.

    The gates are reset, update, new; the reset gate scales the sum of h for the new one.
    """
    (r, z, n), (hr, hz, hn) = from_x.chunk(3, dim=-1), from_h.chunk(3, dim=-1)
    z = (z + hz).sigmoid()
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return new + z * (h - new)


def rnn_step(sums: Tensor, nonlinearity: str) -> Tensor:
    """Return the new h of `sums`: tanh where `nonlinearity` is "tanh", else relu."""
    return sums.tanh() if nonlinearity == "tanh" else sums.relu()


def check_nonlinearity(what: str, nonlinearity: str) -> None:
    """Raise ValueError for what is neither tanh nor relu. `what` names the layer."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{what} has the nonlinearity 'tanh' or 'relu', got {nonlinearity!r}")


def check_states(what: str, count: int, states: object) -> None:
    """Raise ShapeError unless `states` is a list or tuple of `count`, and DTypeError unless each is a tensor.

    `what` names the layer.
    """
    if not isinstance(states, (list, tuple)) or len(states) != count:
        given = f"a tensor of shape {states.shape}" if isinstance(states, Tensor) else repr(states)
        raise ShapeError(f"{what} needs its state as a pair (h, c), got {given}")
    for name, state in zip(("h", "c"), states, strict=False):
        if not isinstance(state, Tensor):
            raise DTypeError(f"{what} needs {name} as a tensor, got {state!r}\n  hint: Tensor(x)")


class _Cell(Described):
    """The weights of a cell with `gates` gates of `hidden_size` rows each, and the checks of what it is called with."""

    def __init__(self, gates: int, input_size: int, hidden_size: int, bias: bool) -> None:
        bound = 1 / math.sqrt(hidden_size)
        self.weight_ih: Tensor = uniform(bound, (hidden_size * gates, input_size))
        self.weight_hh: Tensor = uniform(bound, (hidden_size * gates, hidden_size))
        self.bias_ih: Tensor | None = uniform(bound, (hidden_size * gates,)) if bias else None
        self.bias_hh: Tensor | None = uniform(bound, (hidden_size * gates,)) if bias else None

    def _states(self, x: Tensor, given: object, count: int = 1) -> list[Tensor]:
        """Return the `count` states, each (N, hidden), which are `given`; zeros of `x`'s dtype and device for None.

        Raises ShapeError where `x` is not (N, input_size), a state is not (N, hidden) or two are no pair, and
        DTypeError for a state that is no tensor.
        """
        what, hidden = type(self).__name__, self.weight_hh.shape[1]
        if x.ndim != 2 or x.shape[1] != self.weight_ih.shape[1]:
            raise ShapeError(
                f"{what} with weight_ih {self.weight_ih.shape} needs x (N, {self.weight_ih.shape[1]}), got "
                f"shape {x.shape}\n  made at {x._where()}"
            )
        if given is None:
            return [Tensor.zeros(x.shape[0], hidden, dtype=x.dtype, device=x.device)] * count
        check_states(what, count, given)
        states: list[Tensor] = list(given)  # type: ignore[call-overload]
        for name, state in zip(("h", "c"), states, strict=False):
            if state.shape != (x.shape[0], hidden):
                raise ShapeError(
                    f"{what} needs {name} {(x.shape[0], hidden)} beside x {x.shape}, got shape "
                    f"{state.shape}\n  made at {state._where()}"
                )
        return states

    def _sums(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return x @ weight_ih.T + bias_ih and h @ weight_hh.T + bias_hh, each (N, gates*hidden)."""
        # all gates in one product each, which is why their weights are stacked
        return x.linear(self.weight_ih.transpose(), self.bias_ih), h.linear(self.weight_hh.transpose(), self.bias_hh)


class LSTMCell(_Cell):
    """One step of a long short-term memory: x (N, input_size) and (h, c) -> the new (h, c), each (N, hidden).

    The gates are input, forget, cell and output, in this order along the first axis of weight_ih (4*hidden,
    input_size) and weight_hh (4*hidden, hidden), as in PyTorch; all start uniform in +-1/sqrt(hidden_size).
    Without a state it is zero. Raises ShapeError when x or the state does not fit.

    Source: Hochreiter & Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers et al.,
    2000.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(4, input_size, hidden_size, bias)

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next state (h, c), each (N, hidden)."""
        h, c = self._states(x, hc, 2)
        from_x, from_h = self._sums(x, h)
        h, c = narrowed(*lstm_step(from_x + from_h, c))
        return h, c


class GRUCell(_Cell):
    """One step of a gated recurrent unit: x (N, input_size) and h (N, hidden) -> the new h.

    The gates are reset, update and new, in this order along the first axis of the weights (3*hidden, ...), as in
    PyTorch: the reset gate scales the new gate's product with h. All start uniform in +-1/sqrt(hidden_size).
    Raises ShapeError when x or h does not fit.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", arXiv:1406.1078.

    >>> from tinygraft import Tensor, nn
    >>> nn.GRUCell(3, 4)(Tensor.rand(2, 3)).shape
    (2, 4)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(3, input_size, hidden_size, bias)

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the next state (N, hidden); `h` None is zeros."""
        (state,) = self._states(x, None if h is None else [h])
        (new,) = narrowed(gru_step(*self._sums(x, state), state))
        return new  # type: ignore[no-any-return]


class RNNCell(_Cell):
    """One step of a plain recurrent network: tanh (or relu) of x @ weight_ih.T + h @ weight_hh.T and both biases.

    All start uniform in +-1/sqrt(hidden_size). Raises ShapeError when x or h does not fit, ValueError for another
    nonlinearity. Source: Elman, "Finding structure in time", 1990.

    >>> from tinygraft import Tensor, nn
    >>> nn.RNNCell(3, 4)(Tensor.rand(2, 3)).shape
    (2, 4)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(1, input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the next state (N, hidden); `h` None is zeros."""
        (state,) = self._states(x, None if h is None else [h])
        from_x, from_h = self._sums(x, state)
        (new,) = narrowed(rnn_step(from_x + from_h, self.nonlinearity))
        return new  # type: ignore[no-any-return]
