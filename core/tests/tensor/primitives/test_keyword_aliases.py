"""axis and dim, keepdim and keepdims are one parameter each, whichever name a method declares."""

from __future__ import annotations

import inspect

import pytest

from tinygraft import Tensor
from tinygraft.tensor.primitives.keyword_aliases import ALSO


def test_either_name_is_taken() -> None:
    """Methods, class methods, and the bounds of clip."""
    t = Tensor([[1.0, 4.0], [3.0, 2.0]])
    assert t.sum(dim=0).tolist() == t.sum(axis=0).tolist() == [4.0, 6.0]
    assert t.max(dim=1, keepdims=True).tolist() == [[4.0], [3.0]]
    assert t.softmax(dim=-1).shape == (2, 2)
    assert t.cat(t, axis=1).shape == (2, 4)
    assert t.squeeze(axis=0).shape == (2, 2)
    assert Tensor.stack(t, t, axis=0).shape == (2, 2, 2)
    assert t.clip(min=2.0).tolist() == t.clamp(2.0).tolist() == [[2.0, 4.0], [3.0, 2.0]]
    assert t.cumsum(dim=1).tolist() == [[1.0, 5.0], [3.0, 5.0]]


def test_each_method_declares_one_name() -> None:
    """What the signature says is what was written, and no method declares both names."""
    assert list(inspect.signature(Tensor.sum).parameters)[:3] == ["self", "axis", "keepdim"]
    for name, member in inspect.getmembers(Tensor, inspect.isfunction):
        parameters = inspect.signature(member).parameters
        assert not any(other in parameters and own in parameters for other, own in ALSO.items()), name


def test_both_names_at_once() -> None:
    """Two values for one parameter are refused."""
    with pytest.raises(TypeError, match=r"^sum got dim and axis, which are one parameter$"):
        Tensor([1.0]).sum(axis=0, dim=0)


@pytest.mark.parametrize("name", ["kaiming_normal", "kaiming_uniform", "glorot_uniform", "randint", "normal"])
def test_a_keyword_that_was_handed_on_is_an_error_of_the_method_that_was_called(name: str) -> None:
    """These take the keywords of rand; the error names them, and not rand or randn."""
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'foo'\n  hint: it has"):
        getattr(Tensor, name)(3, foo=1)
