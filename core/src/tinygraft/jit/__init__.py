"""TinyJit."""

from tinygraft.jit.tinyjit import TinyJit as TinyJit
