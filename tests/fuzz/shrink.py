"""Making a failing program small: fewer steps, fewer calls, smaller shapes, plainer constants; and its script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bounded import Value
from compare import Difference
from program import Function, Program, Step, renamed
from run_tinygraft import HEAD, lines

Fails = Callable[[Program], Difference | None]


def shrunk(program: Program, fails: Fails, tries: int = 600) -> Program:
    """The smallest program found that still fails in the same way, after so many tries."""
    kind = _kind(fails(program))
    again = True
    while again and tries > 0:
        again = False
        for candidate in _smaller(program):
            tries -= 1
            if tries < 0:
                break
            if candidate != program and _kind(fails(candidate)) == kind:
                program, again = candidate, True
                break
    return program


def _kind(found: Difference | None) -> str:
    return found.kind if found is not None else ""


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are a little smaller than this one; those that make no sense fail on the reference."""
    steps = program.steps
    for size in (8, 4, 2, 1):
        for start in range(len(steps) - size, -1, -1) if size <= len(steps) else ():
            yield _pruned(replace(program, steps=steps[:start] + steps[start + size :]))
    for n, function in enumerate(program.functions):
        for at in range(len(function.steps) - 1, -1, -1):
            gone = set(function.steps[at].out)
            left = tuple(s for s in function.steps[:at] + function.steps[at + 1 :] if not gone & set(s.ins))
            yield _with_function(program, n, replace(function, steps=left))
        for name in function.results:
            yield _without_result(program, n, function.results.index(name))
    yield from _bypassed(program)
    yield from _without_functions(program)
    for at, step in enumerate(steps):
        if step.op == "leaf":
            for arg in _plainer(step.arg):
                yield replace(program, steps=(*steps[:at], replace(step, arg=arg), *steps[at + 1 :]))
    for size in (4, 3, 2):
        for less in (1, 2):
            if less < size:
                yield _resized(program, size, less)


def _pruned(program: Program) -> Program:
    """Without the steps that read what is never made."""
    made: set[str] = set()
    left: list[Step] = []
    for step in program.steps:
        names = set(step.ins)
        if step.op == "call":
            function = program.functions[step.arg["function"]]
            own = {*function.params, *(out for s in function.steps for out in s.out)}
            names |= {n for s in function.steps for n in s.ins} - own
        if step.op in ("realize", "zero_grad", "delete"):
            step = replace(step, ins=tuple(n for n in step.ins if n in made))
            if not step.ins:
                continue
        elif not names <= made:
            continue
        made.update(step.out)
        if step.op == "delete":
            made.difference_update(step.ins)
        left.append(step)
    return replace(program, steps=tuple(left))


def _with_function(program: Program, n: int, function: Function) -> Program:
    made = {*function.params, *(out for s in function.steps for out in s.out)}
    program = replace(program, functions=(*program.functions[:n], function, *program.functions[n + 1 :]))
    for at in range(len(function.results) - 1, -1, -1):
        if function.results[at] not in made:
            program = _without_result(program, n, at)
    return _pruned(program)


def _without_result(program: Program, n: int, at: int) -> Program:
    function = program.functions[n]
    function = replace(function, results=function.results[:at] + function.results[at + 1 :])
    steps = tuple(
        replace(s, out=s.out[:at] + s.out[at + 1 :]) if s.op == "call" and s.arg["function"] == n else s
        for s in program.steps
    )
    return _pruned(
        replace(program, functions=(*program.functions[:n], function, *program.functions[n + 1 :]), steps=steps)
    )


def _without_functions(program: Program) -> Iterator[Program]:
    """The last function, when nothing calls it."""
    last = len(program.functions) - 1
    if last >= 0 and not any(s.op == "call" and s.arg["function"] == last for s in program.steps):
        yield replace(program, functions=program.functions[:-1])


def _bypassed(program: Program) -> Iterator[Program]:
    """With what a step makes replaced by what it reads."""

    def cut(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        for at in range(len(steps) - 1, -1, -1):
            step = steps[at]
            if len(step.out) == 1 and step.op not in ("leaf", "call"):
                for name in step.ins:
                    yield steps[:at] + tuple(renamed(s, step.out[0], name) for s in steps[at + 1 :])

    for steps in cut(program.steps):
        yield replace(program, steps=steps)
    for n, function in enumerate(program.functions):
        for steps in cut(function.steps):
            yield _with_function(program, n, replace(function, steps=steps))


def _plainer(arg: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Data of a leaf that is easier to read."""
    count = len(arg["data"])
    if arg["dtype"] != "bool":
        for data in ([1] * count, list(range(1, count + 1)), [round(x) for x in arg["data"]]):
            data = [float(x) for x in data] if "float" in arg["dtype"] else data
            if data != arg["data"] and _weight(data) < _weight(arg["data"]):
                yield {**arg, "data": data}
    if not arg["realize"]:
        yield {**arg, "realize": True}
    if arg.get("axis") is not None:
        yield {**arg, "axis": None}


def _weight(data: list[Any]) -> tuple[int, int, int]:
    """How hard data is to read."""
    digits = sum(len(str(x).removesuffix(".0")) for x in data)
    return len(data), digits, len(set(data))


def _resized(program: Program, size: int, less: int) -> Program:
    """With an axis length replaced by a smaller one, wherever it stands in a shape."""

    def smaller(step: Step) -> Step:
        arg = step.arg
        if step.op == "leaf" and size in arg["shape"]:
            shape = [less if n == size else n for n in arg["shape"]]
            count = 1
            for n in shape:
                count *= n
            data = arg["data"][:count]
            if arg["dtype"] in ("int32", "int64"):
                data = [min(x, less - 1) if 0 <= x < size else x for x in data]
            return replace(step, arg={**arg, "shape": shape, "data": data})
        if step.op in ("reshape", "expand"):
            return replace(step, arg=[less if n == size else n for n in arg])
        if step.op.startswith("rows") and arg[1] == size:
            return replace(step, arg=[min(arg[0], less), less, *arg[2:]])
        return step

    functions = tuple(replace(f, steps=tuple(map(smaller, f.steps))) for f in program.functions)
    return replace(program, functions=functions, steps=tuple(map(smaller, program.steps)))


def script(program: Program, expected: list[Value | None], title: str, settings: str = "") -> str:
    """A program as a runnable script that holds every read to its value."""
    text = [f'"""{title}"""', "", HEAD]
    if settings:
        text.append(settings)
    text.append(CHECK)
    number = 0
    for line in lines(program):
        if not line.reads:
            text.append(line.text)
            continue
        value = expected[number]
        number += 1
        if value is None:
            text.append(f"check({line.text}, None)")
        else:
            bound = float(max(value.error.flat)) if hasattr(value.error, "flat") else float(value.error)
            text.append(f"check({line.text}, {value.data.tolist()}, {bound:.3g})")
    return "\n".join(text) + "\n"


CHECK = """
def check(found, wanted, bound=0.0):
    found, wanted = (value if value is None else np.asarray(value, float) for value in (found, wanted))
    same = found is wanted if found is None or wanted is None else np.all(abs(found - wanted) <= bound)
    print("right" if same else f"WRONG: {found} is not {wanted}")

"""
