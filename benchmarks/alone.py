"""One item in this process, without peers: for profilers and for DEBUG.

python -m benchmarks.alone resnet18:1                           set up, three runs, then 10 timed ones
python -m benchmarks.alone gpt2:1x256 --calls 3 --kernels       and its time by kernel
DEBUG=4 python -m benchmarks.alone softmax:4096x4096 --calls 1
perf record -g python -m benchmarks.alone matmul:1024 --calls 200
python -m benchmarks.alone resnet18:1 --library torch
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from benchmarks import kernels
from benchmarks.items import find
from benchmarks.libraries import LIBRARIES, use

WARM = 3


def main() -> None:
    """Set up, warm up, time, and print what the options request."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alone", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("item")
    parser.add_argument("--library", choices=sorted(LIBRARIES), default="tinygraft")
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--kernels", action="store_true", help="the time of each kernel; tinygraft only")
    args = parser.parse_args()
    items = find(args.item)
    if len(items) != 1:
        sys.exit(f"{args.item!r} names {len(items)} items, not one: {', '.join(item.name for item in items)}")
    module = use(args.library)
    case = module.ITEMS[items[0].kind](*items[0].sizes)
    print("warming up, ms:", *(f"{case.run() * 1e3:.3f}" for _ in range(WARM)))
    times = sorted(case.run() * 1e3 for _ in range(args.calls))
    print(f"{items[0].name}: minimum {times[0]:.3f} ms, median {median(times):.3f} ms of {args.calls}")
    if args.kernels:
        print(kernels.text(kernels.rows(case)))


if __name__ == "__main__":
    main()
