"""Samples become a batch: arrays are stacked along a new first axis, and what contains them keeps its form.

`stack_samples` does so with NumPy, which a worker can do without a device; `as_tensors` makes tensors of the result, or
of what the loader of another library gives. In between an array may be `RawBits`: of a dtype that NumPy lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data.from_python import NUMPY_NAME, NUMPY_NAMES, pack
from tinygraft.tensor.primitives.number_range import fitting
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_OWN_BITS = {1: dtypes.uint8, 2: dtypes.uint16}


@dataclass(frozen=True)
class RawBits:
    """Elements of a dtype that NumPy does not have, as unsigned integers of that size: an array, or a tensor of it."""

    bits: Any
    dtype: DType


def default_collate(samples: Sequence[Any], device: Place = None) -> Any:
    """Make a batch of samples: Tensors of shape (len(samples), ...) for arrays, numbers, images and tensors.

    Tuples, named tuples, lists and dicts are gone through, text and bytes become lists. Numbers have the dtypes that
    Tensor gives them. `device` None is the default device. Raises ShapeError without samples and for samples of several
    shapes, lengths or keys, and DTypeError for tensors of several dtypes that NumPy lacks, and for what no tensor is
    made of. Source: torch.utils.data.default_collate.

    >>> import numpy as np
    >>> x, y = default_collate([(np.zeros(3, np.float32), 1), (np.ones(3, np.float32), 2)])
    >>> x.shape, y.tolist()
    ((2, 3), [1, 2])
    """
    return as_tensors(stack_samples(samples), device)


def as_tensors(batch: Any, device: Place = None) -> Any:
    """Make Tensors of all arrays, and of tensors of other libraries, in tuples, lists and dicts; the rest is unchanged.

    Of the batches of PyTorch's DataLoader, for example: `for x, y in map(as_tensors, loader)`. Values of other
    libraries are copied, a Tensor is moved only where `device` is given. An array of text, objects or times becomes a
    list. Python's own numbers stay: a list of them may be a list of names as well. Raises TypeError for a loader.

    >>> import numpy as np
    >>> as_tensors({"x": np.arange(3), "name": ["a", "b"]})["x"].tolist()
    [0, 1, 2]
    """
    if isinstance(batch, RawBits):
        return Tensor(batch.bits, device=device).bitcast(batch.dtype)
    if isinstance(batch, Tensor):
        return batch if device is None else batch.to(device)
    if isinstance(batch, np.ndarray) and batch.dtype.kind not in "biufcV":
        return batch.tolist()  # text, bytes, objects and times
    if isinstance(batch, (np.ndarray, np.generic)):
        return Tensor(batch, device=device)
    if _is_array(batch):
        return as_tensors(raw_or_array(batch), device)
    if hasattr(batch, "__next__") or (hasattr(batch, "dataset") and hasattr(batch, "__iter__")):
        raise TypeError(
            f"as_tensors takes one batch, got a {type(batch).__name__}, which has several\n"
            "  hint: for batch in map(as_tensors, loader): ..."
        )
    return _rebuilt(batch, lambda item: as_tensors(item, device))


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a dict, tuple, named tuple or list with `change` applied to its items, and anything else as it is."""
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [change(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return [change(item) for item in value] if isinstance(value, list) else value


def _is_array(value: Any) -> bool:
    """Whether a value is an array or a tensor of another library, or an image."""
    return any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__dlpack__"))


def stack_samples(samples: Sequence[Any], where: str = "") -> Any:
    """Make a batch of samples as `default_collate` does, of NumPy's arrays, and RawBits for dtypes that it lacks.

    `where` is the place in each sample, for errors, which are those of `default_collate`.
    """
    if not samples:
        raise ShapeError("a batch is made of samples, and there are none")
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, Mapping):
        _compare(samples, lambda sample: list(sample), "keys", where, same=lambda a, b: set(a) == set(b))
        return {key: stack_samples([sample[key] for sample in samples], f"{where}[{key!r}]") for key in first}
    if isinstance(first, (tuple, list)):
        _compare(samples, len, "lengths", where)
        items = [
            stack_samples(list(column), f"{where}[{place}]") for place, column in enumerate(zip(*samples, strict=True))
        ]
        if hasattr(first, "_fields"):
            return type(first)(*items)
        return tuple(items) if isinstance(first, tuple) else items
    if all(type(sample) in (bool, int, float) for sample in samples):
        return _numbers(samples)
    if isinstance(first, Tensor) or hasattr(first, "detach"):
        return _stack_tensors(samples, where)
    if isinstance(first, (np.ndarray, np.generic, complex)) or _is_array(first):
        return _stack([np.asarray(sample) for sample in samples], where)
    kinds = " and ".join(dict.fromkeys(type(sample).__name__ for sample in samples))
    raise DTypeError(
        f"a batch is made of arrays, numbers, text, and tuples, lists and dicts of them; the samples have "
        f"{kinds}{_at(where)}\n  hint: give DataLoader a collate_fn, which gets the list of samples"
    )


def _at(where: str) -> str:
    """Return " at" and a place in a sample for an error; "" for the sample itself."""
    return f" at {where}" if where else ""


def _compare(
    samples: Sequence[Any], fact: Callable[[Any], Any], name: str, where: str,
    same: Callable[[Any, Any], bool] = lambda a, b: bool(a == b),
) -> None:  # fmt: skip
    """Raise ShapeError where `fact` of two samples differs by `same`; `name` and `where` are for the error.

    A sample for which `fact` raises TypeError differs from the first one by its type.
    """
    first = fact(samples[0])
    for place, sample in enumerate(samples):
        try:
            found = fact(sample)
        except TypeError:
            found = type(sample).__name__
        if not same(first, found):
            raise ShapeError(
                f"samples 0 and {place} of a batch have the {name} {first} and {found}{_at(where)}\n"
                "  hint: give DataLoader a collate_fn that pads them, or batch_size=None"
            )


def _numbers(samples: Sequence[Any]) -> Any:
    """Return an array (or RawBits) of Python's numbers, in the dtype that a Tensor of them has."""
    dtype = fitting(dtypes.from_py(list(samples)), samples)
    return _as_array(np.frombuffer(pack(samples, dtype), _BITS[dtype.itemsize]), dtype)


def _as_array(bits: np.ndarray, dtype: DType) -> Any:
    """Return unsigned integers `bits` as an array of `dtype`, or as RawBits where NumPy has no such dtype."""
    return bits.view(NUMPY_NAME[dtype]) if dtype in NUMPY_NAME else RawBits(bits, dtype)


def raw_or_array(data: Any) -> Any:
    """Return all of a tensor or array, of any library, in host memory: as an array, or as RawBits.

    A Tensor is realised; gradients and lazy conjugates are left behind.

    >>> raw_or_array(Tensor([1.0, 2.0], dtype="bfloat16")).bits.dtype
    dtype('uint16')
    """
    if isinstance(data, Tensor):
        has_name = data.dtype in NUMPY_NAME or data.dtype.kind == "complex"
        bits = data.detach() if has_name else data.detach().bitcast(_OWN_BITS[data.dtype.itemsize])
        return bits.numpy() if has_name else RawBits(bits.numpy(), data.dtype)
    if hasattr(data, "detach") and hasattr(data, "resolve_conj"):  # of PyTorch, which refuses to be read with gradients
        data = data.detach().resolve_conj().resolve_neg()
        dtype = NUMPY_NAMES.get(str(data.dtype).rpartition(".")[2])
        if dtype is not None and dtype not in NUMPY_NAME:
            return RawBits(data.contiguous().view(_torch_bits(dtype)).numpy(), dtype)
    return np.asarray(data)


def _torch_bits(dtype: DType) -> Any:
    """Return PyTorch's unsigned dtype as large as `dtype`; PyTorch has to be loaded."""
    return getattr(sys.modules["torch"], f"uint{8 * dtype.itemsize}")


def _stack(arrays: list[np.ndarray], where: str) -> np.ndarray:
    """Return arrays stacked along a new first axis. Raises ShapeError for several shapes."""
    _compare(arrays, lambda array: array.shape, "shapes", where)
    return np.stack(arrays)


def _stack_tensors(samples: Sequence[Any], where: str) -> Any:
    """Stack tensors of ours or of PyTorch along a new first axis: as an array, or RawBits for a dtype that NumPy lacks.

    Raises DTypeError where such a dtype is beside another one, ShapeError for several shapes.
    """
    found = [raw_or_array(sample) for sample in samples]
    raw = [one for one in found if isinstance(one, RawBits)]
    if not raw:
        return _stack(found, where)
    if len(raw) < len(found) or len({one.dtype for one in raw}) > 1:
        names = sorted({str(sample.dtype).rpartition(".")[2] for sample in samples})
        raise DTypeError(f"the samples of a batch have the dtypes {' and '.join(names)}{_at(where)}")
    return RawBits(_stack([one.bits for one in raw], where), raw[0].dtype)
