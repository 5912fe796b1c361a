"""The language models of examples/ learn as PyTorch's do, go on from a checkpoint bit for bit, and need their text."""

from __future__ import annotations

import gzip
import importlib
import json
import math
import runpy
import shutil
from argparse import Namespace
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.nn.state import get_state_dict, load_state_dict

ROOT = Path(__file__).parents[2]
TORCH = runpy.run_path(str(ROOT / "tests" / "support" / "torch_text.py"))


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the examples by name."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return Namespace(**{name: importlib.import_module(name) for name in ("char_text", "char_gpt", "char_lstm")})


def start(model: Any) -> None:
    """Give a model the first values that PyTorch's had."""
    shapes = {name: tuple(value.shape) for name, value in get_state_dict(model).items()}
    values = {name: Tensor(value) for name, value in TORCH["first_values"](shapes).items()}
    load_state_dict(model, values, verbose=False)


def test_text_is_the_one_that_was_frozen(examples: Any) -> None:
    """The text has its digest; a number for each character; nine tenths are learned."""
    text = examples.char_text.load()
    assert (len(text.train), len(text.validation), len(text.characters)) == (414981, 46110, 98)
    assert text.decoded(text.train[:24]) == "# How tinygraft is built"
    assert text.encoded("tensor").tolist() == [text.characters.index(c) for c in "tensor"]


def test_another_text_is_refused(examples: Any, tmp_path: Path) -> None:
    """A text that is missing, cut or changed ends the script with a sentence that says what to do."""
    read, advice = examples.char_text.read, "get it again: git checkout -- examples/documents.txt.gz"
    other, cut = tmp_path / "other.gz", tmp_path / "cut.gz"
    other.write_bytes(gzip.compress(b"text"))
    cut.write_bytes(examples.char_text.PATH.read_bytes()[:1000])
    for path, why in (
        (other, "has another text (SHA-256 982d9e3e"),
        (cut, "is damaged ("),
        (tmp_path / "no", "is not"),
    ):
        with pytest.raises(SystemExit) as ended:
            read(path)
        assert str(ended.value).startswith(f"{path} {why}"), ended.value
        assert str(ended.value).endswith(advice)


def test_bigram_entropy_is_that_of_pairs(examples: Any) -> None:
    """The entropy of a character after another, counted one by one."""
    text = "the models of the documents, and the losses"
    places = {c: n for n, c in enumerate(sorted(set(text)))}
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    expected = -sum(n / (len(text) - 1) * math.log(n / firsts[a]) for (a, _), n in pairs.items())
    found = examples.char_text.bigram_entropy(np.array([places[c] for c in text], np.int32))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_gpt_goes_where_pytorch_goes(examples: Any) -> None:
    """8 losses, with warm-up, decay groups, accumulation and clipping, are PyTorch's within 1e-3."""
    args = examples.char_gpt.arguments(TORCH["GPT_ARGUMENTS"])
    training, losses = examples.char_gpt.Training(examples.char_text.load(), 0, args), []
    start(training.model)
    for number in range(TORCH["STEPS"]):
        losses.append(training.step(Tensor(training.batch(number))).item())
        training.schedule.step()
    np.testing.assert_allclose(losses, TORCH["stored_losses"]("gpt"), rtol=1e-3)
    assert training.step.captured == 1, training.step


@pytest.mark.slow
def test_lstm_goes_where_pytorch_goes(examples: Any) -> None:
    """8 losses, each from the state that the step before left, are PyTorch's within 1e-3."""
    args = examples.char_lstm.arguments(TORCH["LSTM_ARGUMENTS"])
    text = examples.char_text.load()
    training, losses = examples.char_lstm.Training(text, 0, args), []
    start(training.model)
    h, c = training.model.first_state(args.batch)
    for number in range(TORCH["STEPS"]):
        loss, h, c = training.step(Tensor(training.rows(text.train, number)), h, c)
        losses.append(loss.item())
    np.testing.assert_allclose(losses, TORCH["stored_losses"]("lstm"), rtol=1e-3)
    assert training.step.captured == 1, training.step


@pytest.mark.slow
@pytest.mark.parametrize("precision", [[], ["--bf16"]])
def test_gpt_goes_on_from_a_checkpoint(examples: Any, tmp_path: Path, precision: list[str]) -> None:
    """Eight steps, and four, a checkpoint and four, leave the same weights, losses and rate bit for bit."""
    gpt, text = examples.char_gpt, examples.char_text.load()
    text = examples.char_text.Text(text.characters, text.train, text.validation[:600])
    args = gpt.arguments(["--steps", "8", "--batch", "8", "--context", "16", "--every", "4", *precision])
    whole = gpt.Training(text, 5, args)
    whole.run(8, tmp_path / "whole")
    gpt.Training(text, 5, args).run(4, tmp_path)
    again = gpt.Training(text, 5, args)
    again.resume(tmp_path)
    assert len(again.losses) == 4
    again.run(8, tmp_path)
    assert again.losses == whole.losses
    assert again.measured == whole.measured
    assert again.optimizer.state_dict()["param_groups"] == whole.optimizer.state_dict()["param_groups"]
    mine, others = get_state_dict(again.model), get_state_dict(whole.model)
    assert all(np.array_equal(mine[name].numpy(), others[name].numpy()) for name in others)
    with pytest.raises(SystemExit, match="was made with .*'lr': 0.002.*give the same arguments, or another --out"):
        gpt.Training(text, 5, gpt.arguments(["--lr", "0.1"])).resume(tmp_path)


@pytest.mark.slow
def test_parts_of_a_batch_are_that_batch(examples: Any) -> None:
    """A batch in four parts, whose gradients are added up, has the loss and the step of the batch in one."""
    gpt, text, found = examples.char_gpt, examples.char_text.load(), []
    for parts in ("1", "4"):
        training = gpt.Training(text, 0, gpt.arguments(["--batch", "8", "--context", "16", "--parts", parts]))
        batches = [training.batch(number).reshape(int(parts), -1, 17) for number in range(3)]
        found.append([training.step(Tensor(batch)).item() for batch in batches])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_gpt", "char_lstm"])
def test_a_quick_run_leaves_its_results(examples: Any, name: str, tmp_path: Path, capsys: Any) -> None:
    """20 steps learn something, print a sample, and leave a picture, numbers and weights."""
    small = ["--quick", "--seeds", "0", "--out", str(tmp_path), "--batch", "16"]
    getattr(examples, name).main([*small, *(["--length", "8"] if name == "char_lstm" else ["--context", "32"])])
    numbers = json.loads((tmp_path / f"{name}.json").read_text())["numbers"]
    assert numbers["validation loss"] == numbers["validation loss, seed 0"] < math.log(98) - 0.5
    assert numbers["entropy of pairs"] == pytest.approx(2.6615, abs=1e-4)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(capsys.readouterr().out) > 400
    assert (tmp_path / {"char_gpt": "char_gpt-0.ckpt", "char_lstm": "char_lstm.safetensors"}[name]).exists()
    shutil.rmtree(tmp_path)


@pytest.mark.slow
def test_gpt_uses_context(examples: Any, tmp_path: Path) -> None:
    """After 200 steps the loss of unseen text is below the entropy of pairs: it takes more than one character."""
    args = examples.char_gpt.arguments(["--steps", "200", "--batch", "16", "--every", "200", "--lr", "0.004"])
    text = examples.char_text.load()
    training = examples.char_gpt.Training(text, 0, args)
    training.run(200, tmp_path)
    assert training.measured[-1][1] < examples.char_text.bigram_entropy(text.train) - 0.05
