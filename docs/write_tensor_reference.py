"""Write docs/reference/tensor*.md: the full reference of Tensor, a page for each group of themes.

A theme is a file below core's tensor/ folder. The pages name the methods; mkdocstrings puts signature, docstring and
example of each in their place when the site is built. Run it after a theme or a method was added:
`python docs/write_tensor_reference.py`. A test holds the pages to it.
"""

from __future__ import annotations

import runpy
from importlib import import_module
from pathlib import Path

from tinygraft.tensor.methods import THEMES

DOCS = Path(__file__).parent
FOLDER = DOCS / "reference"
# page, its title, and the themes on it; a folder stands for all its themes
GROUPS: dict[str, tuple[str, str]] = {
    "making": ("Making tensors", "primitives.creation ops.random data.copying"),
    "shapes": ("Shapes and parts", "primitives.movement primitives.joining primitives.indexing primitives.masking "
               "ops.shape ops.indexing"),
    "arithmetic": ("Arithmetic and dtypes", "primitives.operators primitives.elementwise primitives.comparison "
                   "primitives.casting ops.math.floating ops.math.complex_parts"),
    "functions": ("Functions of each element", "primitives.transcendental ops.math.pointwise ops.math.special"),
    "reductions": ("Reductions and sorting", "primitives.reduce ops.reduce ops.sorting"),
    "linalg": ("Linear algebra", "primitives.matmul ops.linalg"),
    "networks": ("Networks", "ops.nn"),
    "signals": ("Signals", "ops.signal"),
    "values": ("Values, memory and devices", "data.reading data.realizing data.assigning data.sharing data.properties "
               "data.digest state ops.custom_kernels"),
    "older": ("Older names", "compat"),
}  # fmt: skip
# what the methods of a page are for, in a block that runs, and what it prints
EXAMPLES: dict[str, tuple[str, str]] = {
    "making": ("print(Tensor.zeros(2, 2).tolist(), Tensor.arange(4).tolist())\nprint(Tensor.randn(3).shape)",
               "[[0.0, 0.0], [0.0, 0.0]] [0, 1, 2, 3]\n(3,)"),
    "shapes": ("t = Tensor.arange(6).reshape(2, 3)\nprint(t.T.tolist(), t[:, 1].tolist(), t.flip(1).tolist())",
               "[[0, 3], [1, 4], [2, 5]] [1, 4] [[2, 1, 0], [5, 4, 3]]"),
    "arithmetic": ("t = Tensor([1, 2, 3])\nprint((t / 2).tolist(), (t // 2).tolist(), (t + 0.5).dtype, t.half().dtype)",
                   "[0.5, 1.0, 1.5] [0, 1, 1] dtypes.float dtypes.half"),
    "functions": ("t = Tensor([-1.0, 0.0, 2.0])\nprint(t.relu().tolist(), t.clip(0, 1).tolist())",
                  "[0.0, 0.0, 2.0] [0.0, 0.0, 1.0]"),
    "reductions": ("t = Tensor([[3.0, 1.0], [2.0, 4.0]])\n"
                   "print(t.sum().item(), t.max(axis=1).tolist())\nprint(t.sort(dim=1)[0].tolist())",
                   "10.0 [3.0, 4.0]\n[[1.0, 3.0], [2.0, 4.0]]"),
    "linalg": ("a = Tensor([[2.0, 0.0], [0.0, 4.0]])\nprint((a @ a).tolist(), a.det().item(), a.inv().tolist())",
               "[[4.0, 0.0], [0.0, 16.0]] 8.0 [[0.5, 0.0], [0.0, 0.25]]"),
    "networks": ("image = Tensor.ones(1, 1, 4, 4)\n"
                 "print(image.conv2d(Tensor.ones(1, 1, 3, 3)).tolist(), image.max_pool2d(2).shape)",
                 "[[[[9.0, 9.0], [9.0, 9.0]]]] (1, 1, 2, 2)"),
    "signals": ("t = Tensor([1.0, 0.0, -1.0, 0.0])\nprint(t.rfft().abs().tolist(), Tensor.fftfreq(4).tolist())",
                "[0.0, 2.0, 0.0] [0.0, 0.25, -0.5, -0.25]"),
    "values": ("t = Tensor([1.5, 2.5])\nprint(t.tolist(), t.sum().item(), t.numpy().dtype, t.nbytes())",
               "[1.5, 2.5] 4.0 float32 8"),
    "older": ("print(Tensor([1.0, 2.0]).dot(Tensor([3.0, 4.0])).item())", "11.0"),
}  # fmt: skip
HEAD = """# Tensor

The class itself, then its methods by theme. [Every method in a line](../tensor.md) is the shorter list.

```python
from tinygraft import Tensor

t = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
(t * t).sum().backward()
print(t.shape, t.dtype, t.grad.tolist())
```

```output
(2, 2) dtypes.float [[2.0, 4.0], [6.0, 8.0]]
```

::: tinygraft.Tensor
    options:
      members: false

## What every tensor has

{base}## Modes

{mode}## Methods

"""
BASE = "uop requires_grad grad made_at shape dtype device ndim"
MODE = "training train test no_grad"


def directives(owner: str, names: str) -> str:
    """A directive for each name, a heading below that of the theme."""
    return "".join(f"::: {owner}.{name}\n    options:\n      heading_level: 3\n\n" for name in names.split())


def themes_of(group: str) -> list[str]:
    """The modules of a group, in the order of the table of methods."""
    wanted = GROUPS[group][1].split()
    modules = dict.fromkeys(theme.module for theme in THEMES)
    return [module for module in modules if any(module == one or module.startswith(f"{one}.") for one in wanted)]


def names_of(module: str) -> list[str]:
    """The public methods that a theme gives to Tensor, by name."""
    names = {name for theme in THEMES if theme.module == module for name in theme.names()}
    return sorted(name for name in names if not name.startswith("_"))


def page(group: str) -> str:
    """The page of a group: a heading for each theme, and below it its methods."""
    first_sentence = runpy.run_path(str(DOCS / "write_tensor_index.py"))["first_sentence"]
    code, output = EXAMPLES[group]
    parts = [
        f"# {GROUPS[group][0]}\n\nMethods of [Tensor](tensor.md), by theme.\n\n"
        f"```python\nfrom tinygraft import Tensor\n\n{code}\n```\n\n```output\n{output}\n```\n"
    ]
    for module in themes_of(group):
        parts.append(f"\n## {module.rpartition('.')[2].replace('_', ' ')}\n")
        parts.append(f"\n{first_sentence(import_module(f'tinygraft.tensor.{module}').__doc__)}\n\n")
        parts.append(directives("tinygraft.Tensor", " ".join(names_of(module))))
    return "".join(parts).rstrip() + "\n"


def pages() -> dict[str, str]:
    """Each file with what it has."""
    found = {f"tensor-{group}.md": page(group) for group in GROUPS}
    rows = []
    for group, (title, _) in GROUPS.items():
        names = [name for module in themes_of(group) for name in names_of(module)]
        some = ", ".join(f"`{name}`" for name in names[:6])
        rows.append(f"- [{title}](tensor-{group}.md), {len(names)} methods: {some} and others\n")
    head = HEAD.format(
        base=directives("tinygraft.tensor.primitives.base.TensorBase", BASE),
        mode=directives("tinygraft.tensor.mode.TensorType", MODE),
    )
    return {"tensor.md": head + "".join(rows)} | found


if __name__ == "__main__":
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
