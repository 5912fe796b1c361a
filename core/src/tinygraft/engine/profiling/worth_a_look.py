"""What is worth a look in a profile, as sentences: what takes most of the time, at which line, and what to do.

In: the LineRows of a profile, its whole time, and the time of kernels by module. Out: sentences, the longest time
first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from tinygraft.config import CACHELEVEL
from tinygraft.engine.explanation import duration
from tinygraft.engine.profiling.line_times import COMPILING, GRAPHS, IMPORTS, PREPARING, PROGRAM, LineRow

MUCH = 0.1  # assumed: of the time that repeats, from which on a line is worth a sentence
OFTEN = 8  # assumed: requests of one line, from which on it is in a loop
MOST_MODULE = 0.25  # assumed: of the time of all kernels, from which on a module is worth a sentence
MOST = 5  # assumed: sentences that a person reads
MOST_CHANGING = 0.5  # assumed: of the requests of a line, from which on compiling is no exception
LEAST_SAMPLES = 5  # assumed: of a function, from which on its time is more than chance
IN_PYTHON = {
    PROGRAM: "in Python itself, where no tensor is computed",
    GRAPHS: "to make graphs in Python, each time anew: a TinyJit does it once",
}


def place_of(row: LineRow) -> str:
    """Return FILE:LINE of a row, relative where the file is below the working directory, and the function."""
    relative = os.path.relpath(row.file) if os.path.isabs(row.file) else row.file
    file = row.file if relative.startswith("..") else relative
    return f"{file}:{row.line}" + (f" in {row.function}" if row.function else "")


def worth_a_look(rows: Sequence[LineRow], whole: float, modules: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return at most MOST sentences about what took long, the longest time first; at last what happens once.

    `whole` is the time of the profile in seconds, `modules` has the seconds of kernels by module and line, where
    what a module's gradient took is that module's. The module that took most is named in any case. Shares are of what
    repeats: of the time without imports and what compiles once, which would hide a slow step in a short run.
    """
    imports = sum(row.seconds.get(IMPORTS, 0.0) for row in rows)
    once = sum(row.seconds.get(COMPILING, 0.0) for row in rows if not _is_changing(row))
    repeats = max(whole - imports - once, 1e-9)
    found = [*_compiled_again(rows, repeats), *_unjitted(rows, repeats), *_in_python(rows, repeats)]
    told = [one for one in found if one[0] >= MUCH * repeats]
    told += [*_in_layers(rows, repeats), *_modules(modules, repeats)]
    sentences = [text for _, text in sorted(told, key=lambda one: -one[0])[:MOST]]
    if once >= MUCH * whole:
        later = (
            "the disk cache is off (CACHELEVEL=0)" if not CACHELEVEL else "a second run has them from the disk cache"
        )
        sentences.append(f"once, not in these shares: {duration(once)} to make each kernel at its first use; {later}")
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


def _unjitted(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the lines that ask for values again and again without a TinyJit, with the seconds that Python prepares."""
    for row in rows:
        many = row.requests - row.replays
        seconds = row.seconds.get(PREPARING, 0.0)
        if many >= OFTEN and not _is_changing(row) and not _is_in_layer(row):
            yield (
                seconds,
                (
                    f"{place_of(row)}: {_of(seconds, whole)} for Python to prepare {many} requests for values: ask for "
                    "several at once (Tensor.realize(a, b)), less often, or within a TinyJit"
                ),
            )


def _is_in_layer(row: LineRow) -> bool:
    """Return whether a line is in a call of a layer of the user."""
    return row.function.endswith((".__call__", ".forward"))


def _in_layers(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the lines that ask for values within a layer again and again, with the seconds that pass there."""
    for row in rows:
        if row.requests - row.replays >= OFTEN and _is_in_layer(row) and not _is_changing(row):
            yield (
                row.total,
                (
                    f"{place_of(row)}: {_of(row.total, whole)} in {row.requests} requests for values within a layer, "
                    "which no TinyJit can capture: compute with tensors in it, and read none"
                ),
            )


def _in_python(rows: Sequence[LineRow], whole: float) -> Iterator[tuple[float, str]]:
    """Yield the functions whose own Python takes long, and those that make graphs, with the seconds of each."""
    for kind, what in IN_PYTHON.items():
        functions: dict[tuple[str, str], list[LineRow]] = {}
        for row in rows:
            if row.seconds.get(kind):
                functions.setdefault((row.file, row.function or str(row.line)), []).append(row)
        for some in functions.values():
            if sum(row.samples for row in some) < LEAST_SAMPLES:
                continue
            seconds = sum(row.seconds[kind] for row in some)
            longest = max(some, key=lambda row: row.seconds[kind])
            yield seconds, f"{place_of(longest)}: {_of(seconds, whole)} {what}"


def _modules(modules: Mapping[str, Mapping[str, float]], whole: float) -> list[tuple[float, str]]:
    """Return the modules that take most of the time of kernels, with their seconds; at least the first."""
    spent = {name: sum(lines.values()) for name, lines in modules.items()}
    kernels = sum(spent.values())
    found = []
    for number, (name, seconds) in enumerate(sorted(spent.items(), key=lambda item: -item[1])):
        if seconds >= MOST_MODULE * kernels or not number:
            line = max(modules[name], key=modules[name].__getitem__)
            found.append((seconds, f"{name}: {_of(seconds, whole)} in its kernels, forward and backward, which is "
                                   f"{100 * seconds / kernels:.0f} % of all kernels; most at {line}"))  # fmt: skip
    return found
