"""Names that people know from NumPy and PyTorch and look for in the wrong place: the error says where they are."""

from __future__ import annotations

import re
from operator import attrgetter
from types import ModuleType

import pytest

import tinygraft
from tinygraft import Tensor, nn
from tinygraft.cli.main import main

COMMANDS = ["devices", "doctor", "settings", "explain", "profile", "viz", "tune", "launch", "new-plugin", "conformance",
            "completion"]  # fmt: skip


@pytest.mark.parametrize(("name", "where"), [
    ("manual_seed", "Tensor.manual_seed"), ("zeros", "Tensor.zeros or array_api.zeros"),
    ("float32", "dtypes.float32 or array_api.float32"), ("asarray", "array_api.asarray"),
    ("linalg", "array_api.linalg"), ("optim", "nn.optim"), ("state", "nn.state"), ("Linear", "nn.Linear"),
    ("Adam", "nn.optim.Adam"), ("safe_load", "nn.state.safe_load"), ("data", "nn.data"),
])  # fmt: skip
def test_the_package_says_where_a_name_is(name: str, where: str) -> None:
    """There is one home for each name, and tinygraft.zeros is not it."""
    with pytest.raises(AttributeError) as caught:
        getattr(tinygraft, name)
    assert str(caught.value) == f"module 'tinygraft' has no attribute {name!r}\n  hint: it is {where} here"
    for home in where.split(" or "):
        assert attrgetter(home)(tinygraft) is not None


@pytest.mark.parametrize(("name", "hint"), [
    ("save", "nn.state.safe_save(nn.state.get_state_dict(model), path), or "
     "nn.state.save_checkpoint(path, model=model)"),
    ("sve", "nn.state.safe_save(nn.state.get_state_dict(model), path), or nn.state.save_checkpoint(path, model=model)"),
    ("load", "nn.state.safe_load(path), nn.state.torch_load(path) or nn.state.load_checkpoint(path, model=model)"),
    ("cuda", 'Tensor(data, device="CUDA"), or DEV=CUDA in the environment'),
    ("compile", "TinyJit(function), or @TinyJit above it"), ("from_numpy", "Tensor(array)"),
    ("functional", "what it has are methods of Tensor: F.relu(x) is x.relu()"),
    ("Module", "a model is any object: give it __call__; nn.state.get_parameters(model) finds its tensors"),
    ("inference_mode", "it is Tensor.no_grad here"),
    ("get_default_device", "Device.DEFAULT is its name, and can be set"),
    ("manual_sed", "did you mean 'Tensor.manual_seed'?"), ("Tensr", "did you mean 'Tensor'?"),
])  # fmt: skip
def test_the_package_says_what_is_used_here(name: str, hint: str) -> None:
    """What has another name, or is a method, or was misspelt."""
    with pytest.raises(AttributeError) as caught:
        getattr(tinygraft, name)
    assert str(caught.value) == f"module 'tinygraft' has no attribute {name!r}\n  hint: {hint}"


@pytest.mark.parametrize(("line", "said"), [
    ("from tinygraft.nn import init", "Tensor.kaiming_uniform"),
    ("import tinygraft.nn.init", "Tensor.kaiming_uniform"),
    ("from tinygraft.nn.utils import clip_grad_norm_", "nn.optim has clip_grad_norm"),
    ("from tinygraft.nn.utils.rnn import pack_padded_sequence", "lstm(x, lengths=lengths)"),
])  # fmt: skip
def test_an_import_of_what_torch_nn_has_says_where_it_is(line: str, said: str) -> None:
    """Python shows no hint of a module without a name that is imported from it."""
    with pytest.raises(ImportError) as caught:
        exec(line)
    assert str(caught.value).startswith("there is no tinygraft.nn.") and said in str(caught.value)


@pytest.mark.parametrize(("module", "name", "said"), [
    (nn, "spectral_norm", "w.svd()"), (nn, "weight_norm", "w.norm("), (nn, "GradScaler", "nn.optim.LossScaler"),
    (nn.optim, "GradScaler", "LossScaler"), (nn.optim, "AveragedModel", "EMA"), (nn.optim, "swa_utils", "SWA"),
])  # fmt: skip
def test_what_wraps_training_has_a_hint(module: ModuleType, name: str, said: str) -> None:
    """By the names that PyTorch gives it."""
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(module, name)


@pytest.mark.parametrize("line", [
    "import tinygraft.nn.functional as F", "from tinygraft.nn import functional",
    "from tinygraft.nn.functional import relu",
])  # fmt: skip
def test_an_import_of_functional_says_where_functions_are(line: str) -> None:
    """Whichever way it is imported; nn.functional itself is no attribute either."""
    with pytest.raises(ImportError) as caught:
        exec(line)
    assert str(caught.value) == (
        "there is no tinygraft.nn.functional\n  hint: what it has are methods of Tensor: F.relu(x) is x.relu(), "
        "F.cross_entropy(x, y) is x.cross_entropy(y)"
    )


@pytest.mark.parametrize(("line", "hint"), [
    ("import tinygraft.data", "it is nn.data here, as in from tinygraft.nn.data import DataLoader"),
    ("from tinygraft.optim import Adam", "it is nn.optim here, as in from tinygraft.nn.optim import AdamW"),
    ("from tinygraft import optim", "it is nn.optim here, as in from tinygraft.nn.optim import AdamW"),
    ("import tinygraft.distributed as dist", "it is nn.parallel here, as in nn.parallel.data_parallel(optimizer), with "
     "the ranks of tinygraft.collectives.world()"),
    ("from tinygraft.utils.data import DataLoader", "nn.data has the DataLoader, nn.optim clip_grad_norm"),
])  # fmt: skip
def test_an_import_of_modules_of_pytorch_says_where_they_are(line: str, hint: str) -> None:
    """An import asks for no attribute first: small modules answer."""
    name = line.split()[1].removesuffix(".data") if "utils" in line else line.split()[1]
    name = "tinygraft.optim" if name == "tinygraft" else name
    with pytest.raises(ImportError) as caught:
        exec(line)
    assert str(caught.value) == f"there is no {name}\n  hint: {hint}"


@pytest.mark.parametrize(("module", "name", "hint"), [
    (nn.state, "load_state_dic", "did you mean 'load_state_dict'?"),
    (nn.state, "getparameters", "did you mean 'get_parameters'?"),
    (nn.state, "parameters", "get_parameters(model) lists the tensors"),
    (nn.state, "save", "safe_save(get_state_dict(model), path); save_checkpoint(path, model=model, "
     "optimizer=optimizer) has more"),
    (nn.datasets, "digit", "did you mean 'digits'?"), (nn.datasets, "MNIST", "did you mean 'mnist'?"),
    (nn.optim.lr_scheduler, "CosineAnealing", "did you mean 'CosineAnnealingLR'?"),
    (nn.optim.lr_scheduler, "CyclicLr", "LambdaLR takes any factor of the first rate"),
])  # fmt: skip
def test_names_of_modules_misspelt(module: ModuleType, name: str, hint: str) -> None:
    """nn.state, nn.datasets and nn.optim.lr_scheduler answer as nn does."""
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value) == f"module {module.__name__!r} has no attribute {name!r}\n  hint: {hint}"
    with pytest.raises(AttributeError, match="has no attribute 'qqqqq'$"):
        module.qqqqq  # noqa: B018


@pytest.mark.parametrize(("line", "hint"), [
    ("from tinygraft.nn import Module", "a model is any object: give it __call__; nn.state.get_parameters"),
    ("from tinygraft.nn.parallel import DistributedDataParallel", "data_parallel(optimizer)"),
    ("from tinygraft.nn.optim import Adan", "did you mean 'Adam'?"), ("from tinygraft import Mesh", "nn.parallel.M"),
    ("from tinygraft.nn.data import Dataset", "any object with __len__ and __getitem__ is a data set, without a base"),
    ("from tinygraft.nn.state import load", "safe_load"), ("from tinygraft.collectives import wrold", "did you mean"),
])  # fmt: skip
def test_an_import_of_a_name_that_is_not_there_has_its_hint(line: str, hint: str) -> None:
    """Python's own ImportError would leave it out."""
    _, module, _, name = line.split()
    with pytest.raises(ImportError) as caught:
        exec(line)
    said = str(caught.value)
    assert said.startswith(f"cannot import name {name!r} from {module!r}\n  hint: ")
    assert hint in said
    assert caught.value.name == module


def test_the_names_of_datasets_are_there() -> None:
    """The table that misspelt names are looked up in is that of the functions."""
    from tinygraft.nn.datasets import _NAMES

    assert all(callable(getattr(nn.datasets, name)) for name in _NAMES)


def test_a_name_that_is_nowhere_has_no_hint() -> None:
    """Nor has one that Python itself asks for."""
    for name in ("Nonsense", "foo", "bar", "__wrapped__"):
        with pytest.raises(AttributeError) as caught:
            getattr(tinygraft, name)
        assert str(caught.value) == f"module 'tinygraft' has no attribute {name!r}"


@pytest.mark.parametrize(("layer", "method"), [
    ("PixelShuffle", "pixel_shuffle"), ("LPPool2d", "lp_pool2d"), ("Fold", "fold"),
    ("CosineSimilarity", "cosine_similarity"), ("CrossEntropyLoss", "cross_entropy"),
    ("BCELoss", "binary_crossentropy"),
    ("BCEWithLogitsLoss", "binary_crossentropy_logits"), ("Upsample", "interpolate"), ("ZeroPad2d", "pad"),
    ("UpsamplingNearest2d", "upsample_nearest"), ("UpSample", "interpolate"), ("mse_loss", "mse_loss"),
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
    "SyncBatchNorm", "Transformer", "ReflectionPad1d", "Parameters", "ModulList", "Dataloader",
])  # fmt: skip
def test_what_is_done_in_place_of_other_classes_is_said(name: str) -> None:
    """No base class: the hint says what a model is made of here."""
    with pytest.raises(AttributeError, match=rf"module 'tinygraft.nn' has no attribute '{name}'\n  hint: \w"):
        getattr(nn, name)


@pytest.mark.parametrize(("typed", "meant"), [
    ("Linaer", "Linear"), ("Convd2d", "Conv2d"), ("BatchNorms", "BatchNorm"), ("paralel", "parallel"),
    ("Conv2D", "Conv2d"), ("ConvTranspose2D", "ConvTranspose2d"), ("Layernorm", "LayerNorm"), ("Relu", "ReLU"),
    ("Dropout2D", "Dropout2d"), ("MaxPool2D", "MaxPool2d"), ("conv2d", "Conv2d"), ("Gelu", "GELU"),
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
    ("lr_schedulers", "did you mean 'lr_scheduler'?"), ("Adafactr", "Adam, or Lion, which has half of Adam's state"),
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


def test_the_layer_unfold_is_no_method_of_that_name() -> None:
    """Tensor.unfold is PyTorch's method, and takes other arguments than its layer."""
    with pytest.raises(AttributeError, match="hint: it has no weights, and is Tensor.functional_unfold here"):
        nn.Unfold  # noqa: B018
    with pytest.raises(AttributeError, match=r"hint: it has no weights, and is Tensor.softmax\(axis=1\) here"):
        nn.Softmax2d  # noqa: B018
