"""Modules that need PyTorch are not looked through for examples where it is not installed."""

from importlib.util import find_spec

collect_ignore = (
    []
    if find_spec("torch")
    else ["differences.py", "judge.py", "open_results.py", "reasons.py", "refusals.py", "report.py", "torch_calls.py"]
)
