"""Write docs/tensor.md: every method and property of Tensor by theme, from the code.

A theme is a file below core's tensor/ folder, described by the first sentence of its docstring; a method, by the first
sentence of its own. Run it after a method was added: `python docs/write_tensor_index.py`. A test holds the page to it.
"""

# ruff: noqa: E501  the rows of a table in a page are as long as they are

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tinygraft import Tensor
from tinygraft.tensor import mode
from tinygraft.tensor.methods import THEMES, load_all
from tinygraft.tensor.primitives import base
from tinygraft.tensor.primitives.base import TensorBase

PAGE = Path(__file__).parent / "tensor.md"
HEAD = """# Every method of Tensor

By theme, in the words of the code, which `help(Tensor.name)` gives in full with an example, as does
[the reference](reference/tensor.md). This page is written by `python docs/write_tensor_index.py`.

```python
from tinygraft import Tensor

t = Tensor([[3, 1, 2], [6, 5, 4]])
print(t.sort(axis=1)[0].tolist(), t.cumsum(axis=0).tolist(), t.argmax(axis=1).tolist())
```

```output
[[1, 2, 3], [4, 5, 6]] [[3, 1, 2], [9, 6, 6]] [0, 0]
```

Operators, indexing and `len` mean what they mean in NumPy: `+`, `-`, `*`, `/`, `//`, `%`, `**`, `@`, `&`, `|`, `^`,
`<<`, `>>`, `~` and comparisons, their reflections and in-place forms. Each is one of the methods below.

## What a reduction accumulates in

The dtype in which terms are added up or multiplied, and the one of the result where it is another. With `dtype=` the
elements are cast to it first, and both are that.

| elements | `sum`, `prod`, `cumsum`, `cumprod` | `matmul`, `dot`, `einsum`, `tensordot`, `vecdot`, `addmm`, `conv2d` | `mean`, `var`, `std`, `softmax`, norms |
|---|---|---|---|
| bool | int32 | int32 | float32 |
| int8, int16 | int32 | int32, wrapped to the dtype of the operands | float32 |
| uint8, uint16 | uint32 | uint32, wrapped to the dtype of the operands | float32 |
| int32, int64, uint32, uint64 | the same, wrapping | the same, wrapping | float32 |
| float16, bfloat16, fp8 | float32, rounded once to the dtype | float32, rounded once to the dtype | float32, rounded once to the dtype |
| float32, float64, complex | the same | the same | the same |

A `sum` of bools, int8, int16, uint8 or uint16 has 64 bits where that many elements could exceed 32 (2**31 bools, 65,537 of
int16). `DEFAULT_INT` stands for the int32 of bools and `DEFAULT_FLOAT` for the float32 that integers become. `max`, `min`,
`any`, `all`, `argmax`, `argmin` and `sort` compute nothing wider: they choose. `outer`, `kron` and `addr` add nothing up:
they have the dtype of `*`, which is bool for bools.
"""


def members() -> dict[ModuleType, list[str]]:
    """The public names of Tensor by the module that gives them, in the order of the code."""
    load_all(Tensor)
    found = {import_module(f"tinygraft.tensor.{theme.module}"): list(theme.names()) for theme in THEMES}
    slots = set(TensorBase.__slots__)
    found[base] = [name for name in vars(TensorBase) if name not in slots]
    found[mode] = list(vars(type(Tensor)))
    return {module: [name for name in names if not name.startswith("_")] for module, names in found.items()}


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    flat = " ".join((text or "").split("\n\n")[0].split())
    first = re.split(r"(?<=[^.]\.)\s", flat)[0]  # not behind an ellipsis
    return first if first.endswith("...") else first.rstrip(".") + "."


def signature(name: str, member: Any) -> str:
    """How a member is called: names and defaults, without types."""
    if isinstance(member, property):
        return name
    function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
    shown = inspect.Signature(parameters[0 if isinstance(member, staticmethod) else 1 :])
    return f"{name}{shown}"


def row(name: str) -> str:
    """A line of the page."""
    member = inspect.getattr_static(Tensor, name, None) or vars(type(Tensor))[name]
    text = member.__doc__ if not isinstance(member, (classmethod, staticmethod)) else member.__func__.__doc__
    sign = signature(name, member).replace("|", "\\|")
    return f"| `{sign}` | {first_sentence(text).replace('|', chr(92) + '|')} |"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for module, names in sorted(members().items(), key=lambda item: item[0].__name__.rpartition(".")[2]):
        if not names:
            continue
        theme = module.__name__.rpartition(".")[2]
        lines = [f"\n## {theme}\n", first_sentence(module.__doc__), "", "| method | what it gives |", "|---|---|"]
        parts.append("\n".join([*lines, *(row(name) for name in names), ""]))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
