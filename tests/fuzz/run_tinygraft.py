"""Programs carried out by tinygraft: each step is a line of Python, which is run, and printed when a program fails.

`lines` is the program as a user would write it; `run` executes it and gives what its reads gave. So the script that is
printed for a failure is what was run, to the letter.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from program import Function, Program, Step

HEAD = """import numpy as np
from tinygraft import Context, Tensor, TinyJit, Variable, dtypes, nn
from tinygraft.errors import ShapeError
"""
Template = Callable[..., str]


@dataclass(frozen=True)
class Line:
    """A line of the program, and whether it gives a value to compare."""

    text: str
    reads: bool = False
    step: Step | None = None


class Broke(Exception):
    """tinygraft raised an error; `line` is where."""

    def __init__(self, line: str, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.line, self.error = line, error


def index_text(arg: Any) -> str:
    """An index of plain JSON as Python writes it between brackets."""

    def one(item: Any) -> str:
        if isinstance(item, dict) and "slice" in item:
            return ":".join("" if part is None else str(part) for part in item["slice"])
        return ":" if item is None else str(item["list"] if isinstance(item, dict) else item)

    return ", ".join(map(one, arg)) or "()"


def _infix(symbol: str) -> Template:
    return lambda a, b, arg=None: f"{a} {symbol} {b}"


def _call(name: str) -> Template:
    return lambda a, b, arg=None: f"{a}.{name}({b})"


def _reduce(name: str) -> Template:
    return lambda a, arg: f"{a}.{name}({'' if arg[0] is None else f'{tuple(arg[0])}, '}keepdim={bool(arg[1])})"


def number(value: Any) -> str:
    """A number as Python reads it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _rows(a: str, arg: Any) -> str:
    count, most, name = arg
    return f'Variable("{name}", 1, {most}).bind({count})'


SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "less": "<", "equal": "==", "at_most": "<=", "and": "&",
           "or": "|", "xor": "^"}  # fmt: skip
BINARY: dict[str, Template] = {
    **{name: _infix(symbol) for name, symbol in SYMBOLS.items()},
    "maximum": _call("maximum"),
    "minimum": _call("minimum"),
}
TEMPLATES: dict[str, Template] = {
    **BINARY,
    **{f"{name}_number": lambda a, arg, f=f: f(a, number(arg)) for name, f in BINARY.items()},
    "floordiv_number": lambda a, arg: f"{a} // {arg}", "mod_number": lambda a, arg: f"{a} % {arg}",
    **{name: lambda a, arg, name=name: f"{a}.{name}()" for name in (
        "exp", "log", "sin", "sqrt", "tanh", "sigmoid", "relu", "abs", "square", "contiguous", "detach",
        "flatten", "squeeze", "diagonal")},
    "neg": lambda a, arg: f"-{a}", "not": lambda a, arg: f"{a}.logical_not()", "copy": lambda a, arg: f"{a}.clone()",
    "shard": lambda a, arg: f"{a}.shard(DEVICES, {arg})", "unshard": lambda a, arg: f"{a}.to(DEVICES[0])",
    "where": lambda c, a, b, arg: f"{c}.where({a}, {b})",
    "cast": lambda a, arg: f"{a}.cast(dtypes.{arg})",
    "sum": _reduce("sum"), "mean": _reduce("mean"), "max": _reduce("max"), "min": _reduce("min"),
    "argmax": lambda a, arg: f"{a}.argmax({arg})",
    "cumsum": lambda a, arg: f"{a}.cumsum({arg})", "softmax": lambda a, arg: f"{a}.softmax({arg})",
    "reshape": lambda a, arg: f"{a}.reshape({tuple(arg)})", "permute": lambda a, arg: f"{a}.permute({tuple(arg)})",
    "flip": lambda a, arg: f"{a}.flip({tuple(arg)})", "expand": lambda a, arg: f"{a}.expand({tuple(arg)})",
    "index": lambda a, arg: f"{a}[{index_text(arg)}]", "transpose": lambda a, arg: f"{a}.transpose({arg[0]}, {arg[1]})",
    "narrow": lambda a, arg: f"{a}.narrow({arg[0]}, {arg[1]}, {arg[2]})",
    "shrink": lambda a, arg: f"{a}.shrink({tuple(ends and tuple(ends) for ends in arg)})",
    "chunk": lambda a, arg: f"{a}.chunk({arg[0]}, {arg[1]})",
    "unfold": lambda a, arg: f"{a}.unfold({arg[0]}, {arg[1]}, {arg[2]})",
    "unsqueeze": lambda a, arg: f"{a}.unsqueeze({arg})",
    "pad": lambda a, arg: f"{a}.pad({tuple(map(tuple, arg[0]))}, value={number(arg[1])})",
    "roll": lambda a, arg: f"{a}.roll({arg[0]}, {arg[1]})", "repeat": lambda a, arg: f"{a}.repeat({tuple(arg)})",
    "triu": lambda a, arg: f"{a}.tril()" if arg else f"{a}.triu()",
    "cat": lambda *v: f"{v[0]}.cat({', '.join(v[1:-1])}, dim={v[-1]})",
    "matmul": lambda a, b, arg: f"{a} @ {b}",
    "conv2d": lambda x, w, arg: f"{x}.conv2d({w}, stride={arg[0]}, padding={arg[1]})",
    "pool": lambda x, arg: f"{x}.{'max' if arg[1] else 'avg'}_pool2d({arg[0]})",
    "gather": lambda a, i, arg: f"{a}.gather({arg}, {i})",
    "take": lambda a, i, arg: f"{a}[{':, ' * arg}{i}]",
    "scatter": lambda a, i, s, arg: f"{a}.scatter({arg[0]}, {i}, {s}{', reduce=' + repr('add') if arg[1] else ''})",
    "sort": lambda a, arg: f"{a}.sort({arg[0]}, descending={bool(arg[1])})[0]",
    "argsort": lambda a, arg: f"{a}.argsort({arg[0]}, descending={bool(arg[1])})",
    "topk": lambda a, arg: f"{a}.topk({arg[0]}, {arg[1]}, largest={bool(arg[2])})",
    "rows_sum": lambda a, arg: f"{a}[:{_rows(a, arg)}].sum(0)",
    "rows_product": lambda a, b, arg: f"({a}[:{_rows(a, arg)}] * {b}[:{_rows(a, arg)}]).sum(0)",
    "rows_scaled_max": lambda a, arg: f"({a}[:{_rows(a, arg)}] * 2).max(0)",
    "gradient": lambda loss, *v: f"[g.detach() for g in {loss}.gradient({', '.join(v[:-1])})]",
    "sgd": lambda *v: f"nn.optim.SGD([{', '.join(v[:-1])}], **{v[-1]})",
    "adam": lambda *v: f"nn.optim.Adam([{', '.join(v[:-1])}], **{v[-1]})",
    "grad_of": lambda a, arg: f"{a}.grad.detach() * 1",
}  # fmt: skip
REFUSED = {"assign": "{0}.assign({1})", "add": "{0} += {1}", "part": "{0}[...] = {1}"}


def _refused(text: str) -> str:
    """A line that has to raise ShapeError."""
    return f"try:\n    {text}\nexcept ShapeError:\n    pass\nelse:\n    raise AssertionError('written')"


STATEMENTS: dict[str, Template] = {
    "assign": lambda a, b, arg: f"{a}.assign({b})",
    "setitem": lambda a, b, arg: f"{a}[{index_text(arg)}] = {b}",
    "setitem_number": lambda a, arg: f"{a}[{index_text(arg[0])}] = {number(arg[1])}",
    "inplace": lambda a, b, arg: f"{a} {SYMBOLS[arg]}= {b}",
    "inplace_number": lambda a, arg: f"{a} {SYMBOLS[arg[0]]}= {number(arg[1])}",
    "part_assign": lambda a, b, arg: f"{a}[{index_text(arg)}].assign({b})",
    "part_inplace": lambda a, b, arg: f"{a}[{index_text(arg[0])}] {SYMBOLS[arg[1]]}= {b}",
    "part_inplace_number": lambda a, arg: f"{a}[{index_text(arg[0])}] {SYMBOLS[arg[1]]}= {number(arg[2])}",
    "refused": lambda a, b, arg: _refused(REFUSED[arg].format(a, b)),
    "realize": lambda *v: f"Tensor.realize({', '.join(v[:-1])})",
    "print": lambda a, arg: f"repr({a})",
    "delete": lambda *v: f"del {', '.join(v[:-1])}",
    "backward": lambda loss, arg: f"{loss}.backward()",
    "step": lambda optimizer, arg: f"with Tensor.train(): {optimizer}.step()",
    "zero_grad": lambda *v: "; ".join(f"{name}.grad = None" for name in v[:-1]),
}  # fmt: skip


def leaf_text(arg: dict[str, Any]) -> str:
    """The constructor of a tensor made of numbers."""
    data = np.array(arg["data"]).reshape(arg["shape"]).tolist()
    flag = f", requires_grad={arg['grad']}" if arg.get("grad") is not None else ""
    text = f"Tensor({data}, dtype=dtypes.{arg['dtype']}{flag})"
    if "axis" in arg:
        text += f".shard(DEVICES, {arg['axis']})"
    return text + (".realize()" if arg["realize"] else "")


def _step_texts(step: Step, bound: str = "") -> str:
    """A step as Python; `bound` is the parameter that stands for a bound Variable."""
    if step.op == "leaf":
        return f"{step.out[0]} = {leaf_text(step.arg)}"
    if step.op in ("row_write", "row_view"):
        return _row_text(step, bound)
    if step.op in STATEMENTS:
        return STATEMENTS[step.op](*step.ins, step.arg)
    text = TEMPLATES[step.op](*step.ins, step.arg)
    if step.op.startswith("rows"):  # realised before another value of the same Variable comes into the graph
        text = text.replace(_rows("", step.arg), bound) if bound else f"({text}).realize()"
    several = "," if step.op == "gradient" and len(step.out) == 1 else ""
    return f"{', '.join(step.out)}{several} = {text}"


def _row_text(step: Step, bound: str) -> str:
    """A row at a place that is a bound Variable: written, or a view, which keeps its binding and so has a Variable of
    its own.
    """
    place, most = step.arg[:2]
    name = bound or "p"
    row = f"{step.ins[0]}[{name}:{name} + 1]"
    text = f"{row} = {step.ins[1]}" if step.op == "row_write" else f"{step.out[0]} = {row}"
    if bound:
        return text
    own = f"p{place}_{most}" if step.op == "row_view" else "p"
    return f'p = Variable("{own}", 0, {most - 1}).bind({place}); {text}'


def _function_text(name: str, function: Function) -> str:
    written = sorted({s.ins[0] for s in function.steps if s.op in ("inplace", "inplace_number")} - set(function.params)
                     - {out for s in function.steps for out in s.out})  # fmt: skip
    params = ", ".join([*function.params, *([function.number] if function.number else [])])
    body = [f"global {', '.join(written)}"] if written else []
    body += [_step_texts(step, function.number) for step in function.steps]
    several = "," if len(function.results) == 1 else ""
    body.append(f"return {', '.join(function.results)}{several}" if function.results else "return None")
    return f"def {name}({params}):\n" + textwrap.indent("\n".join(body), "    ") + f"\n{name} = TinyJit({name})"


def _call_text(step: Step, function: Function) -> str:
    arguments = list(step.ins)
    if function.number:
        low, most, bound = (step.arg[key] for key in ("low", "most", "number"))
        arguments.append(f'Variable("{"ip"[low == 0]}", {low}, {most}).bind({bound})')
    results = ", ".join(step.out) + ("," if len(step.out) == 1 else "")
    return (f"{results} = " if step.out else "") + f"f{step.arg['function']}({', '.join(arguments)})"


def lines(program: Program) -> list[Line]:
    """The program as Python."""
    made = [Line(_function_text(f"f{n}", function)) for n, function in enumerate(program.functions)]
    for step in program.steps:
        if step.op == "read":
            made.append(Line(f"{step.ins[0]}.{step.arg}", True, step))
        elif step.op == "read_grad":
            made.append(Line(f"None if {step.ins[0]}.grad is None else {step.ins[0]}.grad.numpy()", True, step))
        elif step.op == "call":
            made.append(Line(_call_text(step, program.functions[step.arg["function"]]), step=step))
        else:
            made.append(Line(_step_texts(step), step=step))
    return made


def run(program: Program, devices: tuple[str, ...]) -> list[Any]:
    """What the reads give, on the default device, or on these where a program asks for several. Raises Broke."""
    space: dict[str, Any] = {"DEVICES": devices}
    exec(HEAD, space)
    reads: list[Any] = []
    for line in lines(program):
        try:
            if line.reads:
                reads.append(eval(line.text, space))
            else:
                exec(line.text, space)
        except Exception as error:
            raise Broke(line.text, error) from error
    return reads
