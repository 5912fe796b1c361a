"""Where older scripts import `Device` and `GlobalCounters` from; they live in the package itself and in helpers."""

from tinygraft.helpers import lazily

__getattr__ = lazily(
    __name__, {"Device": "tinygraft.device.registry", "GlobalCounters": "tinygraft.device.counters",
               "Variable": "tinygraft", "UOp": "tinygraft.uop.uop"}
)  # fmt: skip
