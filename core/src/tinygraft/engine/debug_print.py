"""What DEBUG prints about kernels: the transforms, the source as C, the graphs, the applied rules, the assembly, and a
line for each launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tinygraft.config import DEBUG
from tinygraft.device.counters import GlobalCounters
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.uop.ops import COMPOSITE, Ops
from tinygraft.uop.show import show_kernel, show_linear
from tinygraft.uop.stages import Binary, Kernel, Linear, Source
from tinygraft.uop.units import MatrixUnit

READABLE = Dialect(
    vectors=True,
    group="group{dim}",
    thread="thread",
    shared="shared ",
    barrier="barrier();",
    calls={
        **{op: f"__builtin_{op.name.lower()}{{f}}" for op in (*COMPOSITE, Ops.SQRT, Ops.TRUNC, Ops.FMA)},
        Ops.THREEFRY: "threefry",
    },
)


def show_compiled(kernel: Kernel, rules: str, linear: Linear, source: Source, binary: Binary) -> None:
    """Print a new kernel, as far as DEBUG requests it: its name and actions, from 4 on its source.

    That is C also where the device's is not. From 5 on its graph and `rules`, the text of the applied rules, from 6 on
    its linear form, from 7 on its assembly.
    """
    level = DEBUG.value
    print(linear.name)
    print(f"[{', '.join(linear.actions) or 'no actions'}]")
    if level >= 5:
        print(show_kernel(kernel.sink))
        print(f"rules: {rules or 'none'}")
    if level >= 6:
        print(show_linear(linear.uops))
    if level >= 4:
        print(source.text if source.language == "c" else as_c(linear))
    if level >= 7:
        print(binary.detail or source.text)


def as_c(linear: Linear) -> str:
    """Return a kernel as C to be read: instructions of its matrix units are calls by their names."""
    args = (getattr(u.arg, "unit", u.arg) for u in linear.uops)
    units = dict.fromkeys(arg for arg in args if isinstance(arg, MatrixUnit))
    return CStyleRenderer(replace(READABLE, matrix=_readable_words(units))).render(linear).text


def _readable_words(units: Iterable[MatrixUnit]) -> dict[str, MatrixWords]:
    """Return calls for what each unit does, of a product by the unit's name."""
    load = "tile{t} = load_tile({p}, {stride});"
    tiles = MatrixWords(zero="tile{t} = 0;", first=load, second=load, store="store_tile(tile{t}, {p}, {stride});")
    return {
        unit.name: MatrixWords(multiply=f"{unit.name}({{c}}, {{a}}, {{b}})")
        if unit.rows == 1
        else replace(tiles, multiply=f"{unit.name}(tile{{c}}, tile{{a}}, tile{{b}});")
        for unit in units
    }


def show_launch(count: int, device: str, name: str, arguments: int, seconds: float, flops: int, size: int) -> None:
    """Print the line of DEBUG=2 for the `count`th launch of the process.

    It has `seconds`, the time of all launches so far, and the rates of `flops` and of `size`, the bytes moved.
    `arguments` is how many buffers the kernel has. The memory in use is printed too.
    """
    number = f"*** {device:<7} {count:4d}"
    used = GlobalCounters.mem_used / 1e9
    rate, moved = flops / seconds / 1e9, size / seconds / 1e9
    print(
        f"{number} {name:<30} arg {arguments:2d} mem {used:5.2f} GB tm {seconds * 1e6:9.2f}us/"
        f"{GlobalCounters.time_sum_s * 1e3:9.2f}ms ({rate:9.2f} GFLOPS {moved:6.1f}|{moved:.1f} GB/s)"
    )
