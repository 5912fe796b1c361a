"""Write docs/device-fields.md: every field of Target, Dialect, MatrixUnit and MatrixWords, from the code.

Names, types and defaults are those of the classes; what a field means is its line in the docstring of its class. Run
it after a field was added: `python docs/write_device_fields.py`. A test holds the page to it.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.target import Target
from tinygraft.uop.units import MatrixUnit

PAGE = Path(__file__).parent / "device-fields.md"
HEAD = """# The fields of Target and Dialect

What a [plugin](writing-a-plugin.md) says of its device, field by field: `Target` is what the device can do, for the
scheduler and codegen; `Dialect` has the words of a language of the C family, for `CStyleRenderer`. Every default of a
`Target` is the least able value: a field that is left out costs speed, never a right result. What core and a plugin
may rely on in each other's calls stands in `core/src/tinygraft/device/interfaces.py`. This page is written by
`python docs/write_device_fields.py`.

```python
from tinygraft.plugin import Target

least = Target()
print(least.vector_bytes, least.grid_dims, least.shared_memory, least.matrix)
```

```output
0 0 0 ()
```
"""
CLASSES = (Target, Dialect, MatrixUnit, MatrixWords)


def meanings(kind: type) -> dict[str, str]:
    """What the docstring of a class says of each field, by name, on one line."""
    found = re.findall(r"^- `(\w+)`: (.*(?:\n  .*)*)", inspect.cleandoc(kind.__doc__ or ""), re.M)
    return {name: " ".join(text.split()) for name, text in found}


def introduction(kind: type) -> str:
    """What the docstring of a class says before its fields, without where this page is."""
    before = re.split(r"^- `", inspect.cleandoc(kind.__doc__ or ""), maxsplit=1, flags=re.M)[0]
    return re.sub(r" ?`docs/device-fields.md` shows this list as a table\.", "", before).strip()


def declared(kind: type) -> dict[str, tuple[str, str]]:
    """The type and default of each field as they are written in the code; no default is an empty text."""
    (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    fields = [node for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {ast.unparse(node.target): (ast.unparse(node.annotation), default(node.value)) for node in fields}


def default(value: ast.expr | None) -> str:
    """A default as it is written; that of a field with a factory is what the factory makes."""
    if value is None:
        return ""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        (factory,) = [word.value for word in value.keywords if word.arg == "default_factory"]
        return ast.unparse(factory.body) if isinstance(factory, ast.Lambda) else f"{ast.unparse(factory)}()"
    return ast.unparse(value)


def code(text: str) -> str:
    """A cell of a table with code in it."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(kind: type) -> str:
    """The section of a class."""
    said = meanings(kind)
    rows = [
        f"| `{name}` | {code(type_)} | {code(start)} | {said.get(name, '').replace('|', chr(92) + '|')} |"
        for name, (type_, start) in declared(kind).items()
    ]
    head = f"\n## {kind.__name__}\n\n{introduction(kind)}\n\n| field | type | default | meaning |\n|---|---|---|---|"
    return "\n".join([head, *rows, ""])


def page() -> str:
    """The whole page."""
    return HEAD + "".join(map(table, CLASSES))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
