"""Tensor and its methods, one file per theme.

`from tinygraft.tensor import Tensor` finds it, as in tinygrad; the files here import each other without it.
"""

from tinygraft.helpers import lazily

__getattr__ = lazily(__name__, {"Tensor": "tinygraft.tensor.tensor"})
