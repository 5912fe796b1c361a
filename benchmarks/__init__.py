"""How fast tinygraft is, beside other libraries on the same machine in the same minutes.

    python -m benchmarks --list                                    every item, and its bars
    python -m benchmarks --only matmul,resnet18:1 --peers torch    some items against PyTorch
    python -m benchmarks --only gpt2 --peers none --profile        ours alone, with its time by kernel
    python -m benchmarks.examples_beside_torch                     the steps of the scripts of examples/, in a table
    python -m benchmarks.operators --small                         300 single operators beside PyTorch, without bars
    python -m benchmarks.alone resnet18:1 --calls 20               ours in this process, for perf, cProfile or DEBUG

Each library runs in a process of its own that lives as long as the benchmark. An item is set up in all of them, run
three times, and its results are compared; then the processes take turns. `measure.py` is this protocol, `items.py`
the table of what is measured, `lazy/` and the folders `with_NAME/` have the items in the words of each library.
"""
