"""Random programs with fixed seeds on every lane, programs that once failed, and what the fuzzer generates."""

from __future__ import annotations

from pathlib import Path

import pytest

import run_numpy
import run_tinygraft
from fuzz import failure_of, fuzz, seeds_with_torch
from generate import generate
from lanes import on
from memory import VIEWS, WRITES
from program import from_json, to_json
from shrink import script, shrunk

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
NEEDS = {"C": pytest.mark.needs("cc"), "OPENCL": pytest.mark.needs("opencl")}
PROGRAMS = {"CPU": 150, "C": 10, "PYTHON": 30, "OPENCL": 4, "NOOPT": 30, "GPUSIM": 30}  # about a minute together
LANES = [pytest.param(name, count, marks=NEEDS.get(name, ())) for name, count in PROGRAMS.items()]


@pytest.mark.parametrize(("lane", "count"), LANES)
def test_random_programs_give_what_numpy_and_pytorch_give(lane, count):
    """The first programs of the seeds from 0, in each lane others."""
    report = fuzz(0, 1000 * list(PROGRAMS).index(lane), [lane], programs=count, stop=1, shrink_tries=200)
    print(report)
    assert not report.failures, report.failures[0].text
    assert report.counts[lane] == count
    assert len(report.features) > (60 if count > 20 else 20)
    assert set(report.kinds) == set(seeds_with_torch()) or count < 100


@pytest.mark.parametrize("lane", ["CPU", "PYTHON"])
@pytest.mark.parametrize("file", CORPUS, ids=[file.stem for file in CORPUS])
def test_a_program_that_once_failed_is_right(file, lane):
    """Each program of the corpus, which a run of the fuzzer found and made small."""
    program = from_json(file.read_text())
    if program.kind == "training" and "training" not in seeds_with_torch():
        pytest.skip("PyTorch is not installed")
    with on(lane) as where:
        found = failure_of(program, where)
    assert found is None, f"{found.line}\n{found.text}"


def test_every_operation_is_generated():
    """Among a few hundred programs each operation of the tables occurs, so none is there for nothing."""
    seeds = {"values": 300, "state": 60, "views": 40, "jit": 80, "training": 60, "shards": 30, "numbers": 40}
    kinds = seeds_with_torch()
    features = set().union(*(generate(seed, kind).features for kind in kinds for seed in range(seeds[kind])))
    tables = {
        *VIEWS,
        *WRITES,
        *run_numpy.OPERATIONS,
        *run_tinygraft.TEMPLATES,
        *run_tinygraft.STATEMENTS,
        "leaf",
        "read",
        "call",
    }
    training = {"backward", "step", "zero_grad", "gradient", "sgd", "adam", "grad_of"}
    assert tables - features - (set() if "training" in kinds else training) == set()


@pytest.mark.parametrize("kind", ["values", "jit", "shards", "numbers"])
def test_a_program_survives_its_file(kind):
    """JSON gives the program back, and the same seed gives the same program."""
    for seed in range(20):
        program = generate(seed, kind)
        assert generate(seed, kind) == program
        assert from_json(to_json(program)) == from_json(to_json(from_json(to_json(program))))
        assert to_json(from_json(to_json(program))) == to_json(program)


def test_a_failure_is_made_small(monkeypatch):
    """A wrong addition is found, and its program is a handful of lines that say what was expected."""
    template = run_tinygraft.TEMPLATES["add"]
    monkeypatch.setitem(run_tinygraft.TEMPLATES, "add", lambda a, b, arg: f"{template(a, b)} + 1")
    with on("PYTHON") as lane:
        program = next(p for p in (generate(seed, "values") for seed in range(99)) if failure_of(p, lane))
        small = shrunk(program, lambda p: failure_of(p, lane))
    assert len(small.steps) <= 4
    assert [step.op for step in small.steps if step.op not in ("leaf", "read")] == ["add"]
    text = script(small, run_numpy.Reference(small).run(), "a story")
    assert ("check(" in text and "[2.0]" in text) or "2" in text
