"""Names of PyTorch that a tensor does not have: the error says what to use."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tinygraft import Tensor


@pytest.mark.parametrize(("name", "hint"), [
    ("add_", "assign(t.add(...)) writes the result into this tensor"),
    ("clamp_", "assign(t.clamp(...)) writes the result into this tensor"),
    ("fill_", "assign(value) writes a value into this tensor"),
    ("uniform_", "assign(Tensor.uniform(*t.shape, ...)) writes the result into this tensor"),
    ("item_", "did you mean 'item'?"), ("device_", "did you mean 'device'?"), ("T_", "did you mean 'T'?"),
    ("detach_", "detach() gives a tensor without a gradient, requires_grad_(False) leaves out this one"),
    ("concat", "cat(*tensors, dim=0) puts tensors one after another"), ("tensor", "Tensor(data) makes a tensor"),
    ("is_cuda", "device is the name of where it is"), ("nelement", "numel() is how many elements there are"),
    ("zero_", "assign(0) writes zeros into this tensor"),
    ("type", "cast(dtype) gives another dtype, and dtype is this one"),
    ("float16", "cast('float16') gives this dtype"), ("int8", "cast('int8') gives this dtype"),
    ("grad_fn", "loss.gradient(t) gives the gradient of any tensor; requires_grad=True makes one a leaf"),
    ("new_tensor", "Tensor(data, dtype=t.dtype, device=t.device) makes one like it"),
    ("astype", "cast(dtype) gives another dtype, and dtype is this one"),
])  # fmt: skip
def test_a_name_of_pytorch_says_what_is_here(name: str, hint: str) -> None:
    """On a tensor and on the class."""
    for owner, what in ((Tensor([1.0]), "'Tensor' object"), (Tensor, "type object 'Tensor'")):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert str(caught.value) == f"{what} has no attribute {name!r}\n  hint: {hint}"


def test_other_names_are_plainly_missing() -> None:
    """No hint where there is nothing to say; hasattr, copies, pickles and numpy's questions work as ever."""
    t = Tensor([1.0, 2.0])
    for name in ("colour", "nonsense_", "_private", "__cuda_array_interface__"):
        with pytest.raises(AttributeError) as caught:
            getattr(t, name)
        assert str(caught.value) == f"'Tensor' object has no attribute {name!r}"
        assert not hasattr(t, name)
        assert not hasattr(Tensor, name)
    assert copy.deepcopy(t).tolist() == pickle.loads(pickle.dumps(t)).tolist() == np.asarray(t).tolist() == [1.0, 2.0]


def test_an_error_inside_a_property_is_its_own() -> None:
    """An AttributeError of code that a property runs is not taken for a missing property."""

    class Mine(Tensor):
        __slots__ = ()

        @property
        def broken(self) -> int:
            return None.nothing  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'nothing'"):
        _ = Mine([1.0]).broken


def test_what_the_hints_say_works() -> None:
    """Assigning in place of methods with an underscore."""
    t = Tensor([1.0, 2.0])
    same = t
    t.assign(t.add(1))
    assert same.tolist() == [2.0, 3.0]
    t.assign(0)
    assert same.tolist() == [0.0, 0.0]
    t.assign(Tensor([5.0, 6.0]))
    assert same.tolist() == [5.0, 6.0]
