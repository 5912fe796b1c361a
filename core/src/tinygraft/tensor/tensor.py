"""Tensor: the class that users meet. Its methods are plain functions, one file per theme, bound by `methods.py`.

Data in, a lazy tensor out. A method adds nodes to `uop`; nothing is computed before realize or a read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tinygraft.dtype import DTypeLike, to_dtype
from tinygraft.errors import DTypeError
from tinygraft.tensor.data.construct import is_path, node_of
from tinygraft.tensor.methods import bind_all
from tinygraft.tensor.mode import TensorType
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import grad_flag
from tinygraft.tensor.state.leaf_nodes import leaf, own_memory
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import Place

__all__ = ["Tensor"]


class Tensor(TensorBase, metaclass=TensorType):
    """A lazy array of one dtype on one device.

    data is a number, nested lists or tuples of numbers, a numpy array (copied), bytes (uint8 unless dtype says how to
    read them), a path (the bytes of that file, read when they are needed), a symbolic integer, a graph node, another
    tensor or None (0.0). A Python float becomes DEFAULT_FLOAT, an int DEFAULT_INT (or 64 bits wide if it does not fit).
    Complex numbers make a ComplexTensor, which is a Tensor too.

    device is the name of a device, or several names: each of those has all of the values (`shard` cuts them).
    requires_grad is True or False to have, or never to have, a gradient after backward; None lets backward choose,
    but for a file it means False.

    Raises ShapeError for ragged lists, DTypeError for elements that are no numbers.

    >>> t = Tensor([[1, 2], [3, 4]])
    >>> t.shape, t.dtype
    ((2, 2), dtypes.int)
    """

    __slots__ = ()
    __hash__ = object.__hash__  # by identity: == compares elements, which would make the class unhashable
    __array_priority__ = 1000.0  # so that numpy leaves `array + tensor` to the tensor

    def __getattr__(self, name: str) -> Any:
        """Return `to` with the device that a name is; for any other say what to use, as a tensor does not have it."""
        if any(name in vars(base) for base in type(self).__mro__):  # a property raised AttributeError: show that
            return object.__getattribute__(self, name)
        if name.endswith("_array_interface__"):
            from tinygraft.tensor.data.on_device import array_interface

            if (found := array_interface(self, name)) is not None:
                return found
        from tinygraft.tensor.compat import missing

        if missing.is_device(name):  # t.cuda(), as PyTorch and older scripts have it
            return partial(self.to, name.upper())
        what = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(what + missing.hint(name, type(self)))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Say what to do where a function of PyTorch was given this tensor. Raises DTypeError."""
        from tinygraft.tensor.compat.torch_calls import refused

        raise refused(func)

    def __init__(
        self,
        data: Any = None,
        device: Place = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        """Make a tensor; the docstring of the class says what the arguments mean and what is raised.

        A tensor as `data` is not copied, except with requires_grad=True, which makes a gradient leaf in memory of
        its own. Of complex data nothing is set here, and DTypeError is raised for a subclass of Tensor.
        """
        requires_grad = grad_flag(requires_grad)
        node = node_of(data, device, None if dtype is None else to_dtype(dtype))
        if node is None:  # complex numbers: TensorType returns a ComplexTensor instead of this object
            self._check_may_be_complex()
            return
        if requires_grad is None and type(data) is not list and is_path(data):
            requires_grad = False  # without gradients a slice of a file can be read alone (ondisk.py)
        # a leaf of its own: the node of another tensor would be that tensor's leaf as well
        own = requires_grad is True and isinstance(data, Tensor) and is_concrete(node.shape)
        self._set(own_memory(node) if own and node.dtype.kind == "float" else leaf(node, requires_grad), requires_grad)

    def _check_may_be_complex(self) -> None:
        """Raise DTypeError for a subclass of Tensor: complex data would make a ComplexTensor of it."""
        name = type(self).__name__
        if type(self) is not Tensor and not hasattr(type(self), "_halved"):
            raise DTypeError(
                f"{name} cannot hold complex numbers: Tensor makes a ComplexTensor of them, which is no {name}"
            )


bind_all(Tensor)
