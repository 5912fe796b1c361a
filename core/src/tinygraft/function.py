"""Where newer scripts import `function` from; it lives in tinygraft.functions, and `tinygraft.function` is it.

An import of a module sets its name in the package, so from then on `tinygraft.function` is this module: it is called
as the function is. Older versions have the named functions here, which are those of `tinygraft.mlops`.
"""

import sys
from types import ModuleType
from typing import Any

from tinygraft.functions import function

__all__ = ["function"]


class _Called(ModuleType):
    """The module, which does what the function does."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


sys.modules[__name__].__class__ = _Called


def __getattr__(name: str) -> Any:
    """Return a named function of older scripts, `F.Sum`; of all else this module has only `function`."""
    from tinygraft import mlops
    from tinygraft.errors import no_such_name

    if name not in mlops.__all__:
        raise no_such_name(__name__, name, "")
    return getattr(mlops, name)
