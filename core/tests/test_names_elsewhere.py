"""Names that people know from NumPy and PyTorch and look for in the wrong place: the error says where they are."""

from __future__ import annotations

import pytest

import tinygraft
from tinygraft import Tensor, nn
from tinygraft.cli.main import main

COMMANDS = ["devices", "doctor", "settings", "explain", "profile", "viz", "tune", "launch", "new-plugin", "conformance",
            "completion"]  # fmt: skip


@pytest.mark.parametrize(("name", "where"), [
    ("manual_seed", "Tensor.manual_seed"), ("zeros", "Tensor.zeros or array_api.zeros"),
    ("float32", "dtypes.float32 or array_api.float32"), ("asarray", "array_api.asarray"),
    ("linalg", "array_api.linalg"),
])  # fmt: skip
def test_the_package_says_where_a_name_is(name: str, where: str) -> None:
    """There is one home for each name, and tinygraft.zeros is not it."""
    with pytest.raises(AttributeError) as caught:
        getattr(tinygraft, name)
    assert str(caught.value) == f"module 'tinygraft' has no attribute {name!r}\n  hint: it is {where} here"
    for home in where.split(" or "):
        first, _, second = home.partition(".")
        assert hasattr(getattr(tinygraft, first), second)


def test_a_name_that_is_nowhere_has_no_hint() -> None:
    """Nor has one that Python itself asks for."""
    for name in ("Nonsense", "__wrapped__"):
        with pytest.raises(AttributeError) as caught:
            getattr(tinygraft, name)
        assert str(caught.value) == f"module 'tinygraft' has no attribute {name!r}"


@pytest.mark.parametrize(("layer", "method"), [
    ("PixelShuffle", "pixel_shuffle"), ("LPPool2d", "lp_pool2d"), ("Fold", "fold"),
    ("CosineSimilarity", "cosine_similarity"), ("CrossEntropyLoss", "cross_entropy"),
    ("BCELoss", "binary_crossentropy"),
    ("BCEWithLogitsLoss", "binary_crossentropy_logits"), ("Upsample", "interpolate"), ("ZeroPad2d", "pad"),
    ("UpsamplingNearest2d", "upsample_nearest"),
])  # fmt: skip
def test_layers_without_weights_are_methods(layer: str, method: str) -> None:
    """nn has what holds weights, and of the others what is common in lists of layers."""
    with pytest.raises(AttributeError) as caught:
        getattr(nn, layer)
    assert str(caught.value) == (
        f"module 'tinygraft.nn' has no attribute {layer!r}\n  hint: it has no weights, and is Tensor.{method} here"
    )
    assert callable(getattr(Tensor, method))


@pytest.mark.parametrize("name", [
    "Module", "Parameter", "functional", "ModuleList", "utils", "init", "ModuleDict", "ParameterList", "InstanceNorm2d",
    "SyncBatchNorm", "Transformer", "ReflectionPad1d",
])  # fmt: skip
def test_what_is_done_in_place_of_other_classes_is_said(name: str) -> None:
    """No base class: the hint says what a model is made of here."""
    with pytest.raises(AttributeError, match=rf"module 'tinygraft.nn' has no attribute '{name}'\n  hint: \w"):
        getattr(nn, name)


@pytest.mark.parametrize(("typed", "meant"), [
    ("Linaer", "Linear"), ("Convd2d", "Conv2d"), ("BatchNorms", "BatchNorm"), ("Parameters", "Parameter"),
    ("ModulList", "ModuleList"), ("paralel", "parallel"),
])  # fmt: skip
def test_a_layer_misspelt_is_answered(typed: str, meant: str) -> None:
    """With a public name, never with a module that nobody imports; a name like none of them has no hint."""
    with pytest.raises(AttributeError) as caught:
        getattr(nn, typed)
    assert str(caught.value) == f"module 'tinygraft.nn' has no attribute {typed!r}\n  hint: did you mean {meant!r}?"
    with pytest.raises(AttributeError, match="has no attribute 'archives_of'$"):
        getattr(nn, "archives_of")  # noqa: B009  a checker would refuse nn.archives_of


@pytest.mark.parametrize(("typed", "meant"), [
    ("CosineAnnealingLR", "it is nn.optim.lr_scheduler.CosineAnnealingLR"),
    ("StepLr", "it is nn.optim.lr_scheduler.StepLR"),
    ("AdmaW", "did you mean 'AdamW'?"), ("clip_grad_norm_", "did you mean 'clip_grad_norm'?"),
])  # fmt: skip
def test_names_looked_for_in_nn_optim(typed: str, meant: str) -> None:
    """A schedule is said to be in lr_scheduler; a name misspelt is answered."""
    with pytest.raises(AttributeError) as caught:
        getattr(nn.optim, typed)
    assert str(caught.value) == f"module 'tinygraft.nn.optim' has no attribute {typed!r}\n  hint: {meant}"


def test_help_lists_a_command_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """tinygraft --help: what each command does stands beside its name."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    listed = printed.partition("commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert len({len(line) - len(line[2:].lstrip("-abcdefghijklmnopqrstuvwxyz").lstrip()) for line in listed}) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_says_what_it_does(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole sentences between the usage and the options, in at most 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    printed = capsys.readouterr().out
    description = printed.split("\n\n")[1]
    assert description[0].isupper()
    assert description.endswith(".")
    assert max(map(len, printed.splitlines())) <= 80
