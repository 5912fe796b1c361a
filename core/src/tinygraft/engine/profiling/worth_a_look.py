"""What is worth a look in a profile, as sentences: what takes most of the time, at which line, and what to do.

In: the LineRows of a profile, its whole time, and the time of kernels by module. Out: sentences, the longest time
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tinygraft.config import CACHELEVEL
from tinygraft.engine.explanation import duration
from tinygraft.engine.profiling.how_made import HowMade
from tinygraft.engine.profiling.layer_times import Layer, Modules, slow_layers
from tinygraft.engine.profiling.line_times import COMPILING, GRAPHS, IMPORTS, PREPARING, PROGRAM, LineRow
from tinygraft.helpers import short_path

MUCH = 0.1  # assumed: of the time that repeats, from which on a line is worth a sentence
OFTEN = 8  # assumed: requests of one line, from which on it is in a loop
LEAST = 0.05  # assumed: of the time that repeats, below which a second layer is worth no sentence
MENTIONED = 0.01  # assumed: of the time that repeats, below which the slowest layer matters less than anything else
MOST_MADE = 0.4  # assumed: of the time in which kernels are written, from which on the layer they are for is named
MOST = 5  # assumed: sentences that a person reads
MOST_CHANGING = 0.5  # assumed: of the requests of a line, from which on compiling is no exception
LEAST_SAMPLES = 5  # assumed: of a function, from which on its time is more than chance
READS = frozenset(
    {"item", "tolist", "numpy", "data", "__float__", "__int__", "__bool__"}
)  # methods that give values to Python
STEPS = frozenset({"step"})  # of an optimizer
LEAST_TURNS = 3  # assumed: times between requests in which a function made graphs, from which on it does so each time


def place_of(row: LineRow) -> str:
    """Return FILE:LINE of a row, relative where the file is below the working directory, and the function."""
    return f"{short_path(row.file)}:{row.line}" + (f" in {row.function}" if row.function else "")


def worth_a_look(
    rows: Sequence[LineRow], whole: float, modules: Modules, made: Mapping[str, float] | None = None,
    uncaptured: Mapping[tuple[str, str], int] | None = None, how: HowMade | None = None,
    work: Mapping[str, str] | None = None,
) -> list[str]:  # fmt: skip
    """Return at most MOST sentences about what took long, the longest time first; at last what happens once.

    What keeps a step from a TinyJit comes before all else, then loops over rows and memory that grows: they hide the
    rest. `whole` is the time of the profile in seconds, `modules` has the seconds of kernels by module and line, where
    what a module's gradient took is that module's, `made` those in which the kernels of a module were written, and by
    "" of those that are for no one module, `uncaptured` how often functions under TinyJit were run, by their names and
    why, `how` the sentences of how tensors are made, `work` what is computed at a line of a module. Shares are of what
    repeats: of the time without imports and what compiles once, which would hide a slow step in a short run.
    """
    imports = sum(row.seconds.get(IMPORTS, 0.0) for row in rows)
    once = sum(row.seconds.get(COMPILING, 0.0) for row in rows if not _is_changing(row))
    repeats = max(whole - imports - once, 1e-9)
    layers = [text for _, text in sorted(_in_layers(rows, repeats), key=lambda one: -one[0])]
    obstacles = [*_uncaptured(uncaptured or {}), *layers]
    found = [*_compiled_again(rows, repeats), *_unjitted(rows, repeats, bool(obstacles)), *_in_python(rows, repeats)]
    how = how or HowMade()
    found += how.double
    loops = [text for seconds, text in sorted(how.rows, key=lambda one: -one[0]) if seconds >= LEAST * repeats]
    told = [one for one in found if one[0] >= MUCH * repeats]
    told += _modules(modules, repeats, work or {}, bool(told or loops or obstacles))
    told.sort(key=lambda one: -one[0])
    sentences = [*obstacles, *loops, *how.growth, *[text for _, text in told]][:MOST]
    if once >= MUCH * whole:
        later = (
            "the disk cache is off (CACHELEVEL=0)" if not CACHELEVEL
            else "without a profile a second run has them from the disk cache"
        )  # fmt: skip
        sentences.append(f"once, not in these shares: {duration(once)} to make each kernel at its first use"
                         f"{_made_for(made or {})}; {later}")  # fmt: skip
    return sentences


def _of(seconds: float, whole: float) -> str:
    """Return seconds, and which part of the whole they are."""
    return f"{duration(seconds)} ({100 * seconds / whole:.0f} %)"


def _is_changing(row: LineRow) -> bool:
    """Return whether most requests of a line were compiled."""
    return row.compiled >= OFTEN and row.compiled >= MOST_CHANGING * (row.requests - row.replays)


def _compiled_again(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the lines that compile in most of their requests, with the seconds of that."""
    for row in rows:
        if _is_changing(row):
            seconds = row.seconds.get(COMPILING, 0.0)
            why = f"the same operations, {row.why}" if row.why else "what it computes changes each time"
            told = (
                f"{place_of(row)}: {_of(seconds, whole)} to compile in {row.compiled} of {row.requests} requests: {why}"
            )
            yield seconds, told.replace("\n  hint: ", "; ")


def _uncaptured(uncaptured: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yield the functions under TinyJit that are run in call after call, and why: the read, or the data of Python's."""
    for (name, why), count in sorted(uncaptured.items(), key=lambda item: -item[1]):
        if count >= OFTEN:
            text = why.replace("\n  hint: ", "; ")
            yield f"{name}, under TinyJit, was run in {count} calls and not replayed: {text}"


def _asks_often(row: LineRow) -> bool:
    """Return whether a line asks for values again and again without a TinyJit, of equal forms, and in no layer."""
    return row.requests - row.replays >= OFTEN and not _is_changing(row) and not _is_in_layer(row)


def _unjitted(rows: Sequence[LineRow], whole: float, hindered: bool) -> Iterator[tuple[float, str]]:
    """Yield the lines that ask for values often without a TinyJit, with the seconds that Python prepares there.

    What making graphs takes at such a line is told with it. `hindered` says that an earlier sentence names
    what keeps them from a TinyJit.
    """
    after = ", once the above is mended" if hindered else ""
    for row in filter(_asks_often, rows):
        seconds = row.seconds.get(PREPARING, 0.0) + row.seconds.get(GRAPHS, 0.0)
        graphs = " and make graphs" if row.seconds.get(GRAPHS) else ""
        yield seconds, (f"{place_of(row)}: {_of(seconds, whole)} for Python to prepare {row.requests - row.replays} "
                        f"{_asked(row)}{graphs}: {_remedy(row)}{after}")  # fmt: skip


def _method(row: LineRow) -> str:
    """Return the method by which nearly all requests of a line are made, empty where there is no such one."""
    method, count = row.asked.most_common(1)[0] if row.asked else ("", 0)
    return method if 2 * count > row.requests else ""


def _asked(row: LineRow) -> str:
    """Return what a line asks for, in words."""
    method = _method(row)
    return f"requests of {method}()" if method in READS or method in STEPS else "requests for values"


def _remedy(row: LineRow) -> str:
    """Return what to do about a line that asks often."""
    if _method(row) in STEPS:
        return "put the training step into a function under TinyJit, which prepares once and replays"
    if _method(row) in READS:
        return "read less often, a whole batch or several values at once (Tensor.realize(a, b)), or within a TinyJit"
    return "ask for several at once (Tensor.realize(a, b)), less often, or within a TinyJit"


def _is_in_layer(row: LineRow) -> bool:
    """Return whether a line is in a call of a layer of the user."""
    return row.function.endswith((".__call__", ".forward"))


def _in_layers(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the lines that ask for values within a layer again and again, with the seconds that pass there."""
    for row in rows:
        if row.requests - row.replays >= OFTEN and _is_in_layer(row) and not _is_changing(row):
            seconds = row.total - row.seconds.get(COMPILING, 0.0)
            yield (
                seconds,
                f"{place_of(row)}: {_of(seconds, whole)} in {row.requests} requests for values within a layer, "
                "which no TinyJit can capture: compute with tensors in it, and read none",
            )


def _in_python(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the functions whose own Python takes long, and those that make graphs each time, with their seconds."""
    for _, longest, seconds in _functions(rows, PROGRAM):
        yield (
            seconds,
            f"{place_of(longest)}: {_of(seconds, whole)} in Python itself, where no tensor is computed"
            f"{_loader(longest)}",
        )
    for some, longest, seconds in _functions([row for row in rows if not _asks_often(row)], GRAPHS):
        if max(row.turns for row in some) >= LEAST_TURNS:
            told = "to make graphs in Python, each time anew: a TinyJit does it once"
            yield seconds, f"{place_of(longest)}: {_of(seconds, whole)} {told}"


def _loader(row: LineRow) -> str:
    """Return what to do about a line whose Python takes long, where it is in a data set."""
    if not row.function.endswith((".__getitem__", ".__iter__", ".__getitems__")):
        return ""
    return ": prepare the data once, or in a DataLoader's workers (num_workers=2)"


def _functions(rows: Sequence[LineRow], kind: str) -> Iterator[tuple[list[LineRow], LineRow, float]]:
    """Yield the rows of each function with more than chance of a kind of time, the longest of them, and the sum."""
    functions: dict[tuple[str, str], list[LineRow]] = {}
    for row in rows:
        if row.seconds.get(kind):
            functions.setdefault((row.file, row.function or str(row.line)), []).append(row)
    for some in functions.values():
        if sum(row.samples for row in some) >= LEAST_SAMPLES:
            yield some, max(some, key=lambda row: row.seconds[kind]), sum(row.seconds[kind] for row in some)


def _modules(modules: Modules, whole: float, work: Mapping[str, str], others: bool) -> list[tuple[float, str]]:
    """Return the layers that take most of the time of kernels, with their seconds; the first, and those of LEAST.

    The first one too has to take a hundredth where there are other sentences.
    """
    kernels = sum(sum(lines.values()) for lines in modules.values())
    least = MENTIONED * whole if others else 0.0
    return [(layer.seconds, f"{layer.name}: {_of(layer.seconds, whole)} in its kernels, forward and backward, which is "
                            f"{100 * layer.seconds / kernels:.0f} % of all kernels; most at {layer.line}"
                            f"{_work(layer, modules, work)}")
            for number, layer in enumerate(slow_layers(modules))
            if layer.seconds >= (LEAST * whole if number else least)]  # fmt: skip


def _work(layer: Layer, modules: Modules, work: Mapping[str, str]) -> str:
    """Return what is computed at the line that takes most of a layer, as words; empty where it is not known."""
    of = [name for name, lines in modules.items() if layer.line in lines and (name + ".").startswith(layer.name + ".")]
    name = max(of, key=lambda name: modules[name][layer.line], default="")
    return f", {work[key]}" if (key := f"{name} {layer.line}") in work else ""


def _made_for(made: Mapping[str, float]) -> str:
    """Return for which layer most kernels were written, as words; empty where none has MOST_MADE of that time."""
    layers = slow_layers({name: {"": seconds} for name, seconds in made.items() if name})
    share = layers[0].seconds / sum(made.values()) if layers else 0.0
    return f", {100 * share:.0f} % of it for {layers[0].name}" if share >= MOST_MADE else ""
