"""The steps of the scripts of examples/ beside the same in PyTorch (examples_twins.py), in a table.

    python -m benchmarks.examples_beside_torch                    all of them, 2 threads, some minutes
    python -m benchmarks.examples_beside_torch --only vit,vae --rounds 3

Each script trains as it does, with its progress bar replaced by a clock, in a process of its own with an empty cache;
so does its twin; both take turns. Reported are the least and the median time of a step once all is captured, and the
time of the first step, in which everything is compiled. Of cart-pole it is the time of a whole training.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
CLASSIFIERS, GENERATORS = ("mlp", "cnn", "resnet", "vit"), ("vae", "gan", "diffusion")
NAMES = (*CLASSIFIERS, *GENERATORS, "char_gpt", "char_lstm", "lora", "generation", "cart_pole")
STEPS, WARM = 120, 20  # of which the first are not counted, but the very first by itself
UPDATES = 50  # of cart-pole


class Clock:
    """What a script uses as its progress bar: it notes when each step ends."""

    marks: list[float] = []

    def __init__(self, steps: Any = (), *args: Any, **options: Any) -> None:
        self.steps = range(steps) if isinstance(steps, int) else steps
        Clock.marks = [time.perf_counter()]

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        for step in self.steps:
            yield step
            self.update()

    def update(self) -> None:
        """Note that a step has ended."""
        Clock.marks.append(time.perf_counter())

    def set_postfix(self, *args: Any, **options: Any) -> None:
        """Show nothing."""


def clocked(name: str) -> ModuleType:
    """A script of examples/ as a module, with the clock in place of its progress bars."""
    module = __import__(name)
    for bar in ("tqdm", "trange"):
        if hasattr(module, bar):
            setattr(module, bar, Clock)
    return module


def _ours(name: str) -> None:
    """Train as the script does, until the clock has enough steps."""
    import train_digits

    images, labels, *_ = data = train_digits.digits()
    if name in CLASSIFIERS:
        clocked("classify_digits").train(name, data, 0, -(-STEPS // (len(images) // 64)))
    elif name in GENERATORS:
        clocked(f"generate_{name}").train(images, labels, 0, STEPS)
    elif name in ("char_gpt", "char_lstm"):
        script = clocked(name)
        args = script.arguments(["--steps", str(STEPS), "--every", str(STEPS)])
        training = script.Training(script.load(), 0, args)
        training.validation_loss = lambda: 0.0
        training.run(*((STEPS, Path(tempfile.mkdtemp())) if name == "char_gpt" else ()))
    elif name == "cart_pole":
        clocked("play_cart_pole").train(0, UPDATES)
    else:
        _ours_llama(name)


def _ours_llama(name: str) -> None:
    """Fine-tune a model of the sizes that tune_llama.py makes, or generate with it."""
    script = clocked("tune_llama")
    model = script.Llama(
        script.Config(vocab_size=128, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=16, max_position_embeddings=256, eos_token_id=10)
    )  # fmt: skip
    if name == "generation":
        generator = script.Generator(model, 101)
        for at in Clock(STEPS):
            generator.read([1], at % 100).item()
        return
    pairs = [(str(number), script.german(number)) for number in range(1000)]
    options = script.arguments([])
    adapters = script.add_lora(model, options.targets, options.rank, options.alpha)
    learning = [tensor for layer in adapters.values() for tensor in (layer.lora_A.weight, layer.lora_B.weight)]
    script.fit(model, learning, script.as_tokens(pairs, script.Bytes(), 10), STEPS, 64, 1e-2, "", 0)


def _theirs(name: str) -> None:
    """The same in PyTorch."""
    import torch

    from benchmarks.examples_twins import TWINS, Agent

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    if name == "cart_pole":
        script = clocked("play_cart_pole")
        vars(script)["Agent"] = Agent

        class AsTorch:
            """What the script makes tensors with."""

            manual_seed = staticmethod(torch.manual_seed)

            def __new__(cls, array: Any) -> Any:
                """A tensor of an array."""
                return torch.from_numpy(array)

        vars(script)["Tensor"] = AsTorch
        script.train(0, UPDATES)
        return
    step = TWINS[name]()
    for _ in Clock(STEPS):
        step()


def measured(name: str, train: Callable[[str], None]) -> dict[str, float]:
    """Milliseconds of the first step, and the least and the median of those after WARM; of cart-pole of the whole."""
    train(name)
    marks = Clock.marks
    steps = sorted(1000 * (b - a) for a, b in zip(marks[WARM:-1], marks[WARM + 1 : -1], strict=False))
    first, whole = 1000 * (marks[1] - marks[0]), 1000 * (marks[-1] - marks[0])
    if name == "cart_pole":
        return {"first": first, "least": whole, "median": whole}
    return {"first": first, "least": steps[0], "median": steps[len(steps) // 2]}


def run(side: str, name: str, threads: int, cache: str) -> dict[str, float]:
    """Measure one side of a case in a process of its own, with the cache in a folder."""
    paths = os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent)])
    env = os.environ | {"PYTHONPATH": paths, "TINYGRAFT_CACHE": cache, "MPLBACKEND": "Agg",
                        "OMP_NUM_THREADS": str(threads), "CPU_THREADS": str(threads)}  # fmt: skip
    command = [sys.executable, "-m", "benchmarks.examples_beside_torch", "--side", side, "--only", name]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} {name} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all cases that are asked for, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.examples_beside_torch", description=__doc__)
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAME,...", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side has its turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--side", choices=("ours", "theirs"), help="measure one side here, and print it as JSON")
    args = parser.parse_args(argv)
    names = args.only.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(NAMES)}")
    if args.side:
        print(json.dumps(measured(names[0], _ours if args.side == "ours" else _theirs)))
        return
    heads = ("ours", "median", "torch", "median", "ratio", "first step", "torch's")
    print(f"{'ms':<12}" + "".join(f"{head:>11}" for head in heads), flush=True)
    for name in names:
        ours, theirs = [], []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as cache:
                ours.append(run("ours", name, args.threads, cache))
            theirs.append(run("theirs", name, args.threads, cache))
        (a, b), (c, d) = [[min(one[key] for one in side) for key in ("least", "median")] for side in (ours, theirs)]
        first, other = (min(one["first"] for one in side) for side in (ours, theirs))
        columns = (f"{a:.2f}", f"{b:.2f}", f"{c:.2f}", f"{d:.2f}", f"{a / c:.2f}", f"{first:.0f}", f"{other:.0f}")
        line = f"{name:<12}" + "".join(f"{column:>11}" for column in columns)
        print(line, flush=True)


if __name__ == "__main__":
    main()
