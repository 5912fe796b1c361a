"""Slow layers: the median of a kernel's launches, lists of layers, and parts that take nearly all of a layer."""

from __future__ import annotations

from tinygraft.engine.origins import UserLine
from tinygraft.engine.profiling.layer_times import LayerTimes, slow_layers
from tinygraft.events import LaunchEvent


def launch(module: str, seconds: float, name: str = "k", line: int = 1) -> LaunchEvent:
    """A launch for a line of a module."""
    origins = (UserLine("net.py", line, module),) if module else ()
    return LaunchEvent(name=name, device="CPU", seconds=seconds, origins=origins)


def test_one_launch_that_was_interrupted_names_no_layer() -> None:
    """It counts as the others of its kernel do: eight of 1 ms, one of them 40, are 8 ms."""
    times = LayerTimes()
    for seconds in [0.001] * 7 + [0.04]:
        times.take(launch("Net.a", seconds))
    for _ in range(8):
        times.take(launch("Net.b", 0.002))
    times.take(launch("", 5.0))
    spent = times.modules()
    assert round(spent["Net.a"]["net.py:1"], 9) == 0.008
    assert [layer.name for layer in slow_layers(spent)] == ["Net.b", "Net.a"]


def test_kernels_of_one_line_have_a_median_each() -> None:
    """A long kernel beside a short one at one line is no interruption; more launches than are kept all count."""
    times = LayerTimes()
    for _ in range(200):
        times.take(launch("Net.a", 0.5, "long"))
        times.take(launch("Net.a", 0.25, "short"))
    assert times.modules() == {"Net.a": {"net.py:1": 150.0}}


def test_a_kernel_is_for_the_module_with_most_of_its_launches() -> None:
    """Equal kernels are one form, and written once; one that several modules share alike is for none of them."""
    times = LayerTimes()
    for module in ("Net.a", "Net.b", "Net.b"):
        times.take(launch(module, 0.5))
        times.take(launch(module, 0.5, "shared"))
    times.take(launch("Net.a", 0.5, "shared"))
    assert times.modules_of_kernels() == {"k": "Net.b"}


def test_a_layer_has_all_that_is_inside_of_it() -> None:
    """Four layers whose Linear take most each: the slowest is the one with the largest sum, by its own name."""
    modules = {
        "Net.a": {"x.py:1": 0.2}, "Net.a.lin": {"x.py:2": 0.2}, "Net.b.lin": {"x.py:2": 0.3},
        "Net.c.lin": {"x.py:2": 0.3},
    }  # fmt: skip
    (first, *others) = slow_layers(modules)
    assert (first.name, first.seconds, len(others)) == ("Net.a", 0.4, 2)


def test_a_list_of_layers_is_no_layer() -> None:
    """Its members are compared with the other layers; a part of nearly all of a member's time is named itself."""
    modules = {
        "Net.blocks.0.attn": {"x.py:1": 0.1}, "Net.blocks.1.attn": {"x.py:1": 0.8}, "Net.blocks.1.mlp": {"x.py:3": 0.1},
        "Net.head": {"x.py:4": 0.2},
    }  # fmt: skip
    assert [layer.name for layer in slow_layers(modules)] == ["Net.blocks.1.attn"]


def test_a_layer_that_is_no_part_of_a_model() -> None:
    """A lone Linear, and an optimizer, are layers themselves."""
    found = slow_layers({"Linear": {"x.py:1": 0.5}, "Adam": {"x.py:2": 0.4}})
    assert [layer.name for layer in found] == ["Linear", "Adam"]
    assert slow_layers({}) == []
