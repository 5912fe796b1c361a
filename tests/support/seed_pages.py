"""What a page of tests/seeds states and how it is held against what we have: signatures and printed text.

Text must be equal. A number may differ from the one that the document shows by 1e-5, relative or absolute, because
sums are taken in another order; integers and what stands between the numbers may not.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from typing import Any

from tinygraft import dtypes

FLOAT = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")
TOLERANCE = 1e-5


def agrees(printed: str, shows: str) -> bool:
    """Whether printed is what a document shows, but for digits of floats past the tolerance.

    >>> agrees("2.6116745 [1 2]", "2.6116748 [1 2]"), agrees("2.6117", "2.6126"), agrees("[1 2]", "[1 3]")
    (True, False, False)
    """
    if printed == shows:
        return True
    found, wanted = FLOAT.findall(printed), FLOAT.findall(shows)
    if FLOAT.sub("#", printed).split() != FLOAT.sub("#", shows).split() or len(found) != len(wanted):
        return False
    pairs = zip(map(float, found), map(float, wanted), strict=True)
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in pairs)


def read_signatures(page: str) -> dict[str, ast.arguments | None]:
    """The signatures at the top of a page, by name; None for a property."""
    lines = page.partition("%% signatures\n")[2].partition("\n%% code")[0].split("\n")
    return dict(map(read_signature, filter(None, map(str.strip, lines))))


def read_signature(line: str) -> tuple[str, ast.arguments | None]:
    """The name in a line, with its parameters; None in place of them for a property."""
    if "(" not in line:
        return line, None
    function = ast.parse(f"def {line}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.name, function.args


def difference(kind: type, name: str, wanted: ast.arguments | None) -> str:
    """How a method or property differs from a documented one; empty when every documented call works as written.

    Ours may have a default where the document has none, and further parameters with defaults.
    """
    if not hasattr(kind, name):  # that imports the theme of a method
        return "it is missing"
    owned = inspect.getattr_static(kind, name)
    if wanted is None:
        return "" if isinstance(owned, property) else f"it is no property but {owned!r}"
    if isinstance(owned, property):
        return "it is a property"
    signature = inspect.signature(getattr(kind, name))
    ours = [p for p in signature.parameters.values() if p.name != "self"]
    placed = [p for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    named = {p.name: p for p in ours if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    defaults: list[Any] = [inspect.Parameter.empty] * (len(wanted.args) - len(wanted.defaults))
    defaults += [_value(d) for d in wanted.defaults]
    for place, (argument, default) in enumerate(zip(wanted.args, defaults, strict=True)):
        if len(placed) <= place or placed[place].name != argument.arg:
            return f"parameter {place} is not {argument.arg}: {signature}"
        if default is not inspect.Parameter.empty and not same_default(placed[place].default, default):
            return f"the default of {argument.arg} is {placed[place].default!r}, not {default!r}"
    for argument, given in zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True):
        default = inspect.Parameter.empty if given is None else _value(given)
        if argument.arg not in named or not same_default(named[argument.arg].default, default):
            return f"there is no {argument.arg}={default!r}: {signature}"
    further = [p for p in placed[len(wanted.args) :] if p.default is p.empty]
    if further:
        return f"parameter {further[0].name} has no default: {signature}"
    if wanted.vararg is not None and not any(p.kind is p.VAR_POSITIONAL for p in ours):
        return f"it takes no *{wanted.vararg.arg}: {signature}"
    return ""


def _value(default: ast.expr) -> Any:
    return eval(ast.unparse(default), {"dtypes": dtypes})


def same_default(ours: Any, wanted: Any) -> bool:
    """Whether two defaults are one; 1 and True are not, 1 and 1.0 are."""
    return bool(ours == wanted) and isinstance(ours, bool) == isinstance(wanted, bool)
