"""Tensor.train, Tensor.test and Context as blocks and decorators: in one another, and in several threads at once."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tinygraft import Context, Tensor, dtypes
from tinygraft.config import NOOPT, TRAINING
from tinygraft.errors import SettingWarning


def in_threads(functions: list[Callable[[], Any]]) -> list[Any]:
    """What functions give, each in a thread of its own, all at once; raises what one of them raises."""
    found: list[Any] = [None] * len(functions)

    def run(place: int) -> None:
        try:
            found[place] = functions[place]()
        except BaseException as error:
            found[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


@pytest.mark.parametrize("block", [Tensor.train(), Context(TRAINING=1)], ids=["train", "context"])
def test_a_function_in_training_mode_runs_in_two_threads(block: Any) -> None:
    """They enter in one order and leave in the same one; afterwards neither thread is in training mode."""
    inside, outside = threading.Barrier(2), threading.Event()

    @block
    def step(first: bool) -> bool:
        inside.wait(30)
        if not first:
            outside.wait(30)
        return Tensor.training

    def call(first: bool) -> tuple[bool, bool]:
        mode = step(first)
        after = Tensor.training
        outside.set()
        return mode, after

    assert in_threads([lambda: call(True), lambda: call(False)]) == [(True, False)] * 2
    assert not Tensor.training


@pytest.mark.parametrize("block", [Tensor.train(), Context(TRAINING=1)], ids=["train", "context"])
def test_one_block_is_entered_in_two_threads_and_in_itself(block: Any) -> None:
    """The same object: each leaves as it found things."""
    inside, outside = threading.Barrier(2), threading.Event()

    def call(first: bool) -> list[bool]:
        seen = []
        with block:
            inside.wait(30)
            if not first:
                outside.wait(30)
            with block:
                seen.append(Tensor.training)
            seen.append(Tensor.training)
        outside.set()
        return [*seen, Tensor.training]

    assert in_threads([lambda: call(True), lambda: call(False)]) == [[True, True, False]] * 2
    assert not Tensor.training


def test_modes_in_one_another_and_in_functions_that_call_themselves() -> None:
    """The innermost one holds, also where an exception leaves them."""

    @Tensor.test()
    def down(depth: int) -> list[bool]:
        if not depth:
            raise KeyError("end")
        with Tensor.train():
            seen = [Tensor.training]
            return seen + down(depth - 1)

    before = NOOPT.in_context
    with Tensor.train(), Context(NOOPT=1):
        with Tensor.train(mode=False):
            assert not Tensor.training
        with pytest.raises(KeyError, match="end"):
            down(3)
        assert (Tensor.training, TRAINING.value, NOOPT.value) == (True, 1, 1)
    assert (Tensor.training, NOOPT.in_context) == (False, before)


def test_the_mode_belongs_to_the_thread_that_set_it() -> None:
    """A thread that is started in a block is not in it: as any setting, and as no_grad in PyTorch."""
    with Tensor.train():
        assert in_threads([lambda: Tensor.training]) == [bool(TRAINING._default)]


def test_a_type_of_types_beside_that_of_tensor() -> None:
    """A subclass whose metaclass has another base too: both are called."""
    called = []

    class Counting(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            called.append(cls.__name__)
            return super().__call__(*args, **kwargs)

    class Both(type(Tensor), Counting):  # type: ignore[misc]
        pass

    class Counted(Tensor, metaclass=Both):
        pass

    assert Counted([1, 2]).tolist() == [1, 2]
    assert called == ["Counted"]


def test_default_type_is_the_dtype_of_floats() -> None:
    """Scripts that set it by its older name set the setting, and not an attribute that nothing reads."""
    with Context(DEFAULT_FLOAT="float32"):
        Tensor.default_type = dtypes.float64
        assert Tensor([1.0]).dtype is dtypes.float64 and dtypes.default_float is dtypes.float64
    assert Tensor.default_type is dtypes.default_float is dtypes.float32


@pytest.mark.parametrize("name", ["train", "test", "no_grad"])
def test_a_block_that_is_not_entered_says_so(name: str) -> None:
    """By itself it changes nothing; entered, or above a function that is called or not, it says nothing."""
    with pytest.warns(
        SettingWarning, match=rf"Tensor.{name}\(\) by itself changes nothing: it is a block\n  hint: with"
    ):
        getattr(Tensor, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with getattr(Tensor, name)():
            pass
        getattr(Tensor, name)()(lambda: None)()
        getattr(Tensor, name)()(lambda: None)
        with contextlib.ExitStack() as stack:
            stack.enter_context(getattr(Tensor, name)())
