"""Which layer of a model takes longest: the times of launches by the module and line of the user that they compute.

In: launches. Out: seconds by module and line, in which a launch that was interrupted counts as the others of its
kernel do; and the layers of which a person would say that they are slow, each with all that is inside of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from tinygraft.engine.origins import place
from tinygraft.events import LaunchEvent

Modules = Mapping[str, Mapping[str, float]]  # seconds by module and line

MOST_KEPT = 64  # assumed: launches of one kernel at one line, whose median is enough
MOST_MODULE = 0.25  # assumed: of the time of all kernels, from which on a layer is worth a sentence
MOST_INSIDE = 0.6  # assumed: of a layer's time, from which on one part of it is meant and not the whole


@dataclass(slots=True)
class _KernelTimes:
    """The launches of one kernel for one line: how many, and the seconds of the last of them."""

    count: int = 0
    flops: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float, flops: int) -> None:
        """Count one, in place of the oldest where MOST_KEPT are kept."""
        if len(self.seconds) < MOST_KEPT:
            self.seconds.append(seconds)
        else:
            self.seconds[self.count % MOST_KEPT] = seconds
        self.count += 1
        self.flops += flops


def operations(flops: int) -> str:
    """Return a number of floating point operations with a unit.

    >>> operations(21_474_836_480), operations(26_600)
    ('21.5 GFLOP', '0.0266 MFLOP')
    """
    return f"{flops * 1e-9:.3g} GFLOP" if flops >= 1e8 else f"{flops * 1e-6:.3g} MFLOP"


class LayerTimes:
    """The launches of a run by module, line and kernel."""

    def __init__(self) -> None:
        self._launches: dict[tuple[str, str, str], _KernelTimes] = {}

    def take(self, launch: LaunchEvent) -> None:
        """Count a launch for the module that it computes most for, or whose gradient it is; for none, nothing."""
        if launch.origins and launch.origins[0].module:
            key = launch.origins[0].module, place(launch.origins[0]), launch.name
            self._launches.setdefault(key, _KernelTimes()).add(launch.seconds, launch.flops)

    def modules(self) -> dict[str, dict[str, float]]:
        """Return the seconds of kernels by module and line: for a kernel the median launch times their count.

        A sum would name the layer in whose kernel the processor did something else for a moment.
        """
        found: dict[str, dict[str, float]] = {}
        for (module, line, _), launches in self._launches.items():
            lines = found.setdefault(module, {})
            lines[line] = lines.get(line, 0.0) + launches.count * median(launches.seconds)
        return found

    def work(self) -> dict[str, str]:
        """Return what is computed at each line, by module and line in one text, as words: launches and operations."""
        found: dict[str, tuple[int, int]] = {}
        for (module, line, _), launches in self._launches.items():
            count, flops = found.get(f"{module} {line}", (0, 0))
            found[f"{module} {line}"] = count + launches.count, flops + launches.flops
        return {key: f"{operations(flops)} in {count} launches" for key, (count, flops) in found.items()}

    def modules_of_kernels(self) -> dict[str, str]:
        """Return the module that each kernel is for, by its name: that of MOST_INSIDE of its launches, if any is."""
        counts: dict[str, Counter[str]] = {}
        for (module, _, name), launches in self._launches.items():
            counts.setdefault(name, Counter())[module] += launches.count
        most = {name: modules.most_common(1)[0] for name, modules in counts.items()}
        return {name: module for name, (module, count) in most.items() if count >= MOST_INSIDE * counts[name].total()}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with all that is inside of it: its seconds, and the line at which most of them passed."""

    name: str
    seconds: float
    line: str


def slow_layers(modules: Modules) -> list[Layer]:
    """Return the layers that take MOST_MODULE of all kernels, the slowest first; at least one where there is any.

    A layer is a part of the whole model, such as Model.encoder, or a part of that which takes nearly all of its time,
    such as Model.encoder.attention.

    >>> modules = {"Net.a": {"x.py:1": 1.0}, "Net.b.inner": {"x.py:2": 3.0}, "Net.b": {"x.py:3": 1.0}}
    >>> [(layer.name, layer.seconds, layer.line) for layer in slow_layers(modules)]
    [('Net.b.inner', 3.0, 'x.py:2')]
    """
    whole = sum(sum(lines.values()) for lines in modules.values())
    tops = {_inside(name, "") for name in modules}
    parts = [part for top in tops for part in (_parts(modules, top) or [top])]
    found = sorted((_narrowed(modules, name) for name in parts), key=lambda layer: -layer.seconds)
    return [layer for number, layer in enumerate(found) if layer.seconds >= MOST_MODULE * whole or not number]


def _inside(name: str, prefix: str) -> str:
    """Return the name of the part of module `prefix` that `name` is or is in."""
    rest = name.removeprefix(prefix).removeprefix(".")
    return f"{prefix}.{rest.partition('.')[0]}".removeprefix(".")


def _parts(modules: Modules, prefix: str) -> list[str]:
    """Return the parts of module `prefix`, in order; a list of layers is no part, its layers are."""
    inner = [name for name in modules if name.startswith(prefix + ".")]
    found = dict.fromkeys(_inside(name, prefix) for name in inner)
    return [part for name in found for part in ([name] if name in modules or not _numbered(modules, name)
                                                else _parts(modules, name))]  # fmt: skip


def _numbered(modules: Modules, prefix: str) -> bool:
    """Return whether module `prefix` is a list, whose parts have numbers for names."""
    return all(name[len(prefix) + 1 :].partition(".")[0].isdigit() for name in modules if name.startswith(prefix + "."))


def _layer(modules: Modules, name: str) -> Layer:
    """Return a module with all that is inside of it."""
    lines: dict[str, float] = {}
    for module, spent in modules.items():
        if module == name or module.startswith(name + "."):
            for line, seconds in spent.items():
                lines[line] = lines.get(line, 0.0) + seconds
    return Layer(name, sum(lines.values()), max(lines, key=lines.__getitem__))


def _narrowed(modules: Modules, name: str) -> Layer:
    """Return the smallest part of a module that takes MOST_INSIDE of it, and of each between them."""
    layer = _layer(modules, name)
    inner = [_layer(modules, part) for part in _parts(modules, name)]
    slowest = max(inner, key=lambda one: one.seconds, default=None)
    if slowest is None or slowest.seconds < MOST_INSIDE * layer.seconds:
        return layer
    return _narrowed(modules, slowest.name)
