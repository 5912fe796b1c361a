"""Where tinygrad has TinyJit, for scripts that import it from there; it lives above this package, in tinygraft.jit."""

from tinygraft.helpers import lazily

__getattr__ = lazily(__name__, {"TinyJit": "tinygraft.jit"})
