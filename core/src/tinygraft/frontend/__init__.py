"""A folder for scripts of tinygrad 0.11: `onnx.py` has the name that they import from there."""
