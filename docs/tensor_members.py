"""Shows the methods of Tensor on the site: an extension of griffe, by which mkdocstrings reads the code.

A method of Tensor is a function of the module of its theme, and Python binds it as `tensor/methods.py` says. griffe
reads the source and runs nothing: it finds neither the docstring nor, of a method with overloads, the method.
"""

from __future__ import annotations

from typing import Any

import griffe  # brought by mkdocstrings

from tinygraft.tensor.methods import THEMES


def as_member(found: griffe.Function, kind: str) -> griffe.Function | griffe.Attribute:
    """Return a function of a theme as a member of a class: a property has no parameters."""
    common = {"lineno": found.lineno, "endlineno": found.endlineno, "docstring": found.docstring}
    if kind == "properties":
        member = griffe.Attribute(found.name, annotation=found.returns, **common)
        member.labels.add("property")
        return member
    method = griffe.Function(found.name, parameters=found.parameters, returns=found.returns, **common)
    if kind in ("classmethods", "staticmethods"):
        method.labels.add(kind[:-1])
    return method


class TensorMembers(griffe.Extension):
    """Gives the class Tensor what its themes give it."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the members, once tinygraft has been read."""
        if pkg.path != "tinygraft":
            return
        owner = pkg["tensor.tensor.Tensor"]
        for theme in THEMES:
            module = pkg[f"tensor.{theme.module}"]
            for name, kind in theme.names().items():
                found = module.members.get(name)
                if isinstance(found, griffe.Function):
                    owner.set_member(name, as_member(found, kind))
