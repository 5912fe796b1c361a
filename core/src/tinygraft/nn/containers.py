"""Sequential: layers one after the other. Other containers are plain lists and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinygraft.nn.described import no_attribute


class Sequential(list[Callable[[Any], Any]]):
    """A list of layers, or of any functions, that is called: each gets the result of the one before.

    Its tensors have the names that PyTorch gives: "0.weight" is that of the first. A slice is a Sequential. Raises
    TypeError for what cannot be called.

    >>> from tinygraft import Tensor, nn
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> model(Tensor.rand(5, 3)).shape, sorted(nn.state.get_state_dict(model))
    ((5, 2), ['0.bias', '0.weight', '2.bias', '2.weight'])
    """

    def __init__(self, *layers: Callable[[Any], Any]) -> None:
        for layer in layers:
            if not callable(layer):
                hint = "\n  hint: Sequential(*layers)" if isinstance(layer, (list, tuple)) else ""
                raise TypeError(f"Sequential takes layers that can be called, got {type(layer).__name__}{hint}")
        super().__init__(layers)

    def __call__(self, x: Any) -> Any:
        """Return the result of the last layer; `x` itself without layers."""
        for layer in self:
            x = layer(x)
        return x

    if not TYPE_CHECKING:  # checkers would take any attribute for one that is there

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with what to use here for a method that modules of PyTorch have."""
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        """One layer a line, by its name in a state_dict."""
        rows = [f"{number}: {layer!r}".replace("\n", "\n  ") for number, layer in enumerate(self)]
        return f"{type(self).__name__}(" + "".join(f"\n  {row}" for row in rows) + ("\n)" if rows else ")")

    def __getitem__(self, index: Any) -> Any:
        """Return the layer at an index, or a Sequential of a slice."""
        found = super().__getitem__(index)
        return type(self)(*found) if isinstance(index, slice) else found
