"""Where older scripts import `OnnxRunner` from; it lives in tinygraft.nn.onnx."""

from tinygraft.helpers import lazily

__getattr__ = lazily(__name__, {"OnnxRunner": "tinygraft.nn.onnx"})
