"""Fine-tune a model of Llama's kind by LoRA, then generate with a cache of keys and values.

    python examples/tune_llama.py                           makes its own base model; three seeds, some minutes
    python examples/tune_llama.py --weights model.gguf --data pairs.tsv

Without --weights a small model is trained to write numbers in English words (47: forty-seven), saved as
model.safetensors with its config.json under the names of Hugging Face, and read again. LoRA then teaches it German
(siebenundvierzig); numbers that it never saw are what it is judged by. --weights takes a .safetensors file or folder,
or a .gguf file (llama.py says which), --data lines of a question, a tab and an answer. It leaves adapters in PEFT's
form, the merged model, tune_llama.png and tune_llama.json in --out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from llama import Config, Generator, Llama, read
from lora import add_lora, merge_lora, save_lora
from results import write_results
from tqdm import tqdm

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict, safe_save

matplotlib.use("Agg")  # draw to files; needs no screen
from matplotlib import pyplot

Pairs = list[tuple[str, str]]  # questions and their answers

TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
ENGLISH = f"zero one two three four five six seven eight nine {TEENS}".split()
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ZEHNER = "zehn elf zwoelf dreizehn vierzehn fuenfzehn sechzehn siebzehn achtzehn neunzehn"
GERMAN = f"null ein zwei drei vier fuenf sechs sieben acht neun {ZEHNER}".split()
GERMAN_TENS = ["zwanzig", "dreissig", "vierzig", "fuenfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
IGNORED = -1  # a label that nothing is learned from
MOST = 1 << 26  # bytes of a tokenizer.json; one of 260,000 tokens has half of it


def english(number: int) -> str:
    """A number below 1,000 in English: 247 is two hundred forty-seven."""
    if number >= 100:
        return f"{ENGLISH[number // 100]} hundred" + (f" {english(number % 100)}" if number % 100 else "")
    if number < 20:
        return ENGLISH[number]
    return ENGLISH_TENS[number // 10 - 2] + (f"-{ENGLISH[number % 10]}" if number % 10 else "")


def german(number: int) -> str:
    """The same in German, without umlauts: 247 is zweihundertsiebenundvierzig."""
    if number >= 100:
        return f"{GERMAN[number // 100]}hundert" + (german(number % 100) if number % 100 else "")
    if number < 20:
        return "eins" if number == 1 else GERMAN[number]
    return (f"{GERMAN[number % 10]}und" if number % 10 else "") + GERMAN_TENS[number // 10 - 2]


class Bytes:
    """Text as the numbers of its bytes: the tokens of the model that is made here."""

    def encode(self, text: str, begins: bool = False) -> list[int]:
        """The tokens of a text; none is added where it begins one."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return bytes(tokens).decode(errors="replace")


class TokenizerFile:
    """The tokens that a tokenizer.json gives, by the package tokenizers."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer  # only models of others need it
        except ImportError:
            raise SystemExit(f"{path} is read by the package tokenizers: pip install tokenizers") from None
        with path.open("rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            raise SystemExit(f"{path} has more than {MOST} bytes, which no tokenizer needs")
        try:
            self.inner = Tokenizer.from_str(data.decode())
        except Exception as error:  # the package has no class of its own
            raise SystemExit(f"{path} has no tokenizer that can be read: {str(error)[:200]}") from None

    def encode(self, text: str, begins: bool = False) -> list[int]:
        """The tokens of a text; where it begins one, also those that the tokenizer puts before each."""
        return self.inner.encode(text, add_special_tokens=begins).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.inner.decode(list(tokens))


def as_tokens(pairs: Pairs, tokenizer: Any, config: Config) -> tuple[Tensor, Tensor]:
    """What is read and what is to come next, (pairs, longest) each; labels of questions and of the rest are IGNORED.

    Raises SystemExit for a tokenizer whose tokens the model has not.
    """
    rows = [
        (tokenizer.encode(f"{question}: ", begins=True), [*tokenizer.encode(answer), config.eos_token_id])
        for question, answer in pairs
    ]
    greatest = max(token for question, answer in rows for token in (*question, *answer))
    if greatest >= config.vocab_size or not all(question for question, _ in rows):
        raise SystemExit(
            f"the tokenizer gives the token {greatest} or none for a text, and the model has {config.vocab_size} tokens"
        )
    longest = max(len(question) + len(answer) for question, answer in rows) - 1
    inputs = np.zeros((len(rows), longest), np.int32)
    labels = np.full((len(rows), longest), IGNORED, np.int32)
    for row, (question, answer) in enumerate(rows):
        whole = question + answer
        inputs[row, : len(whole) - 1] = whole[:-1]
        labels[row, len(question) - 1 : len(whole) - 1] = answer
    return Tensor(inputs), Tensor(labels)


def fit(
    model: Llama, parameters: list[Tensor], data: tuple[Tensor, Tensor], steps: int, batch: int, rate: float, name: str,
    seed: int,
) -> list[float]:  # fmt: skip
    """Train the parameters for so many steps, each on a batch drawn from data; the losses."""
    inputs, labels = data
    optimizer = nn.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    schedule = nn.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1, cycle_momentum=False)
    order = np.random.default_rng(seed)

    @TinyJit
    @Tensor.train()
    def step(chosen: Tensor) -> Tensor:
        """One step on the chosen rows; from the third call on a replay of the second."""
        optimizer.zero_grad()
        scores = model(inputs[chosen]).flatten(0, 1)
        loss = scores.sparse_categorical_crossentropy(labels[chosen].flatten(), ignore_index=IGNORED).backward()
        nn.optim.clip_grad_norm(optimizer.params, 1.0)
        return loss.realize(*optimizer.schedule_step())

    losses = []
    with tqdm(total=steps, unit="step", desc=name) as progress:
        for _ in range(steps):
            losses.append(step(Tensor(order.integers(len(inputs), size=batch).astype(np.int32))).item())
            schedule.step()
            progress.update()
            progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return losses


def answers(model: Llama, questions: Sequence[str], tokenizer: Any, count: int) -> list[str]:
    """What the model answers, with at most count tokens each."""
    prompts = [tokenizer.encode(f"{question}: ", begins=True) for question in questions]
    generator = Generator(model, max(map(len, prompts)) + count)
    found = []
    for prompt in prompts:
        tokens = generator(prompt, count)
        end = model.config.eos_token_id
        found.append(tokenizer.decode(tokens[: tokens.index(end)] if end in tokens else tokens))
    return found


def share_right(model: Llama, pairs: Pairs, tokenizer: Any, count: int) -> float:
    """How many of the answers are right in every character."""
    found = answers(model, [question for question, _ in pairs], tokenizer, count)
    return float(np.mean([given == wanted for given, (_, wanted) in zip(found, pairs, strict=True)]))


def split(pairs: Pairs, seed: int) -> tuple[Pairs, Pairs]:
    """Nine tenths to learn from, and at most 100 of the rest to be judged by."""
    order = np.random.default_rng(seed).permutation(len(pairs))
    held = max(1, len(pairs) // 10)
    return [pairs[i] for i in order[held:]], [pairs[i] for i in order[:held][:100]]


def make_base(folder: Path, seed: int, steps: int) -> tuple[list[float], float]:
    """Train a small model on English numbers and save it to a folder; its losses, and its share of right answers."""
    config = Config(
        vocab_size=128, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, eos_token_id=ord("\n"),
    )  # fmt: skip
    seen, held = split([(str(number), english(number)) for number in range(1000)], seed)
    model = Llama(config)
    data = as_tokens(seen, Bytes(), config)
    losses = fit(model, get_parameters(model), data, steps, 64, 6e-3, f"seed {seed}, base", seed)
    folder.mkdir(parents=True, exist_ok=True)
    config.save(folder / "config.json")
    safe_save(get_state_dict(model), folder / "model.safetensors", {"format": "pt"})
    return losses, share_right(model, held, Bytes(), data[0].shape[1])


def tokenizer_of(weights: Path, config: Config) -> Any:
    """The tokenizer.json beside the weights, else bytes where the vocabulary is as small. Raises SystemExit."""
    beside = (weights if weights.is_dir() else weights.parent) / "tokenizer.json"
    if beside.exists():
        return TokenizerFile(beside)
    if config.vocab_size > 256:
        raise SystemExit(
            f"{weights} has {config.vocab_size} tokens; their meaning is looked for in {beside}, not there\n"
            "what a GGUF file itself has in its metadata of a tokenizer is not read here"
        )
    return Bytes()


def tune(weights: Path, pairs: Pairs, seed: int, args: argparse.Namespace) -> tuple[list[float], dict[str, float]]:
    """Fine-tune the model of a file by LoRA, save adapters and merged model; the losses and what was reached."""
    config, tensors = read(weights)
    model = Llama(config)
    load_state_dict(model, tensors)
    tokenizer = tokenizer_of(weights, config)
    if config.eos_token_id is None:
        raise SystemExit(f"{weights} does not say which token ends a text (eos_token_id), so that no answer would end")
    seen, held = split(pairs, seed)
    data = as_tokens(seen, tokenizer, config)
    longest = data[0].shape[1]
    before = share_right(model, held, tokenizer, longest)

    adapters = add_lora(model, args.targets, args.rank, args.alpha)
    learning = [tensor for layer in adapters.values() for tensor in (layer.lora_A.weight, layer.lora_B.weight)]
    losses = fit(model, learning, data, args.steps, args.batch, args.rate, f"seed {seed}, LoRA", seed)
    folder = args.out / f"tune_llama_{seed}"
    save_lora(adapters, folder)
    after = share_right(model, held, tokenizer, longest)
    merge_lora(model)
    config.save(folder / "config.json")
    safe_save(get_state_dict(model), folder / "model.safetensors", {"format": "pt"})
    merged = share_right(model, held, tokenizer, longest)
    for question, _ in held[:3]:
        print(f"  {question}: {answers(model, [question], tokenizer, longest)[0]}")
    return losses, {"before": before, "after": after, "merged": merged, "ms_per_token": token_time(model)}


def token_time(model: Llama, count: int = 100) -> float:
    """Milliseconds that a token takes when the captures are there, the least of three runs."""
    generator, found = Generator(model, count + 1), []
    for _ in range(4):
        began = time.perf_counter()
        for at in range(count):
            generator.read([1], at).item()
        found.append(1000 * (time.perf_counter() - began) / count)
    return min(found[1:])


def draw(
    bases: list[list[float]], losses: list[list[float]], shares: list[dict[str, float]], seeds: Sequence[int]
) -> Any:
    """The losses of both trainings, and how many answers were right before and after."""
    figure, (learning, reached) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for history in bases:
        learning.plot(history, color="tab:gray", linewidth=1, label="base model" if history is bases[0] else None)
    for seed, history in zip(seeds, losses, strict=True):
        learning.plot(history, linewidth=1, label=f"LoRA, seed {seed}")
    learning.set(xlabel="step", ylabel="loss", yscale="log")
    learning.legend()
    places = np.arange(len(seeds))
    for offset, name in ((-0.2, "before"), (0.2, "after")):
        bars = reached.bar(places + offset, [found[name] for found in shares], 0.4, label=name)
        reached.bar_label(bars, fmt="{:.0%}")
    reached.set(ylabel="share of unseen questions answered right", ylim=(0, 1.25))
    reached.set_xticks(places, [f"seed {seed}" for seed in seeds])
    reached.legend(ncols=2)
    return figure


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", type=Path, help="a .safetensors file or folder with config.json, or a .gguf file")
    parser.add_argument(
        "--data", type=Path, help="lines of a question, a tab and an answer; German numbers if not given"
    )
    parser.add_argument(
        "--targets", nargs="+", default=["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
    )
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=16)
    parser.add_argument("--steps", type=int, default=1000, help="of LoRA")
    parser.add_argument("--base-steps", type=int, default=600, help="of the base model, without --weights")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-2, help="the greatest learning rate of LoRA")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--quick", action="store_true", help="an eighth of the steps: enough to see it learn")
    args = parser.parse_args(argv)
    if args.quick:
        args.steps, args.base_steps = max(1, args.steps // 8), max(1, args.base_steps // 8)
    return args


def main(argv: Sequence[str] | None = None) -> float:
    """Tune with each seed. Returns the least share of unseen questions that were answered right."""
    args, began = arguments(argv), time.perf_counter()
    pairs = [(str(number), german(number)) for number in range(1000)]
    if args.data:
        lines = args.data.read_text(encoding="utf-8").splitlines()
        if wrong := [number for number, line in enumerate(lines, 1) if line.count("\t") != 1]:
            raise SystemExit(f"{args.data}: line {wrong[0]} is no question, a tab and an answer")
        pairs = [(line.split("\t")[0], line.split("\t")[1]) for line in lines]
        if len(pairs) < 2:
            raise SystemExit(f"{args.data} has {len(pairs)} lines; one is to learn from, and another to be judged by")

    bases: list[list[float]] = []
    losses, shares = [], []
    for seed in args.seeds:
        Tensor.manual_seed(seed)
        weights = args.weights or args.out / f"tune_llama_base_{seed}"
        if not args.weights:
            history, share = make_base(weights, seed, args.base_steps)
            bases.append(history)
            print(f"seed {seed}: the base model writes {share:.0%} of unseen numbers in English")
        history, found = tune(weights, pairs, seed, args)
        losses.append(history)
        shares.append(found)
        print(
            f"seed {seed}: {found['before']:.0%} right before, {found['after']:.0%} after, {found['merged']:.0%} merged"
        )

    figure = draw(bases, losses, shares, args.seeds)
    numbers = {name: float(np.mean([found[name] for found in shares])) for name in shares[0]}
    numbers["least_after"] = min(found["after"] for found in shares)
    write_results(args.out, "tune_llama", figure, numbers, seconds=time.perf_counter() - began, seeds=args.seeds)
    pyplot.close(figure)
    return numbers["least_after"]


if __name__ == "__main__":
    main()
