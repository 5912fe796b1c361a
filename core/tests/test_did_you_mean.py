"""Names that do not exist are answered with the one that was meant: the sentences, one by one."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tinygraft
from tinygraft import Context, Device, Tensor, TinyJit, dtypes, grad, nn
from tinygraft.cli.main import main
from tinygraft.dtype import to_dtype
from tinygraft.errors import DeviceError, DTypeError, FileFormatError, ShapeError, TrainingError, closest

x = Tensor.ones(2, 3)


@pytest.mark.parametrize(("mistake", "kind", "text"), [
    (lambda: x.sofmax(), AttributeError, "'Tensor' object has no attribute 'sofmax'~ 'softmax'?"),
    (lambda: Tensor.onse(3), AttributeError, "type object 'Tensor' has no attribute 'onse'~ 'ones'?"),
    (lambda: x.expand_dims(0), AttributeError, "'expand_dims'\n  hint: unsqueeze(dim) inserts an axis"),
    (lambda: x.qqqqqqq, AttributeError, "'Tensor' object has no attribute 'qqqqqqq'"),
    (lambda: tinygraft.Tensr, AttributeError, "module 'tinygraft' has no attribute 'Tensr'~ 'Tensor'?"),
    (lambda: nn.Linaer, AttributeError, "module 'tinygraft.nn' has no attribute 'Linaer'~ 'Linear'?"),
    (lambda: dtypes.flaot32, AttributeError, "'dtypes' has no attribute 'flaot32'~ 'float32'?"),
    (lambda: dtypes.qqqqqq, AttributeError, "type object 'dtypes' has no attribute 'qqqqqq'"),
    (lambda: x.cast("flaot32"), TypeError, "there is no dtype 'flaot32'; the dtypes are"),
    (lambda: x.cast("flaot32"), TypeError, "void~ 'float32'?"),
    (lambda: Tensor(1, 2), RuntimeError, "got 2\n  hint: Tensor([1, 2]) has these values, in one argument;"),
    (lambda: Tensor(1, 2, 3), TypeError, "void\n  hint: Tensor([1, 2]) has these values, in one argument;"),
    (lambda: x.to(np.float16), RuntimeError, "float16'>\n  hint: cast(dtypes.half) gives another dtype"),
    (lambda: np.sum(x), TypeError, "'out'\n  hint: np.sum(t) calls the method with out=: write t.sum(), or"),
    (lambda: x.max(dim=0).values, AttributeError, "'values'\n  hint: max(axis), min(axis) and median give values"),
    (lambda: x.at[0].set(1), AttributeError, "'at'\n  hint: t[i] = value writes into it; clone() first keeps"),
    (lambda: x.zero_grad(), AttributeError, "\n  hint: optimizer.zero_grad() is for all its parameters; t.grad"),
    (lambda: x[Tensor([0.5])], TypeError, "got a tensor of dtypes.float\n  made at core/tests/test_did_you_mean.py:"),
    (lambda: dtypes.f32, AttributeError, "'f32'~ 'float32'?"),
    (lambda: nn.Linear("2", 3), TypeError, "Linear needs an integer as in_features, got '2'"),
    (lambda: nn.Conv2d(3, 4, 3)(Tensor.ones(3, 8, 8)), ValueError, "\n  hint: x.unsqueeze(0) makes a batch of one"),
    (lambda: nn.LayerNorm(8)(x), ValueError, "LayerNorm of (8,) needs x (..., 8), got shape (2, 3)"),
    (lambda: x.rearrange("a b c -> c b a"), ValueError, "'a b c -> c b a' is for 3 axes, and shape (2, 3) has 2"),
    (lambda: grad(x.sum()), TypeError, "grad takes a function, got Tensor\n  hint: t.backward() fills grad of what"),
    (lambda: TinyJit(3), TypeError, "TinyJit takes a function, got int"),
    (lambda: grad(lambda t: (t * t).sum())(Tensor([1, 2])), ValueError, "() and dtypes.int\n  hint: give it floats"),
    (lambda: x.pad(1), ValueError, "\n  hint: pad((1, 1)) is for the last axis"),
    (lambda: nn.autocast("cuda"), ValueError, "AUTOCAST is bfloat16 or float16, got 'cuda'\n  hint: it is for every"),
    (lambda: x.cast("<f4"), TypeError, "void~ 'float32'?"),
    (lambda: x.cast("fp16"), TypeError, "void~ 'float16'?"),
    (lambda: x.cast("single"), TypeError, "void~ 'float32'?"),
    (lambda: x.to("float16"), RuntimeError, "a device is named here, and 'float16' is a dtype\n  hint: cast("
     "'float16'), or half(), gives another dtype"),
    (lambda: x.to("i8"), RuntimeError, "and 'i8' is a dtype\n  hint: cast('int64'), or long(), gives another dtype"),
    (lambda: nn.optim.Adam([x], betas=0.9), TypeError, "Adam needs betas to be two numbers, as (0.9, 0.999), got 0.9"),
    (lambda: nn.optim.NAdam([x], betas=(0.9,)), TypeError, "NAdam needs betas to be two numbers, as (0.9, 0.999), got"),
    (lambda: nn.BatchNorm2d(3)(x), ValueError, "\n  hint: BatchNorm takes any number of axes from 2 on"),
    (lambda: nn.BatchNorm2d(3)(x), ValueError, "BatchNorm2d of 3 channels needs x (N, 3, height, width), got "
     "shape (2, 3)\n  made at "),
    (lambda: nn.BatchNorm1d(3)(Tensor.ones(2, 4)), ValueError, "BatchNorm1d of 3 channels needs x (N, 3[, length])"),
    (lambda: x.to("CUD"), RuntimeError, "Did you mean CUDA?"),
    (lambda: Device["PYTHN"], RuntimeError, "Did you mean PYTHON?"),
    (lambda: Context(BEM=1), ValueError, "~ 'BEAM'?"),
    (lambda: x.sum(axes=0), TypeError, "sum() got an unexpected keyword argument 'axes'~ 'axis'?"),
    (lambda: x.softmax(dimm=1), TypeError, "softmax() got an unexpected keyword argument 'dimm'~ 'dim'?"),
    (lambda: x.conv2d(x, strid=2), TypeError, "got an unexpected keyword argument 'strid'~ 'stride'?"),
    (lambda: x.cross_entropy(x, zz=1), TypeError, "argument 'zz'\n  hint: it has Y, reduction, label_smoothing"),
    (lambda: Tensor(1, requires_gard=1), TypeError, "Tensor() got an unexpected keyword argument 'requires_gard'~"),
    (lambda: Tensor.zeros(3, dtyp="int"), TypeError, "unexpected keyword argument 'dtyp'~ 'dtype'?"),
    (lambda: Tensor.from_torch(x), AttributeError, "\n  hint: Tensor(x) copies an array or a tensor of Py"),
    (lambda: tinygraft.tensor([1]), TypeError, "module tinygraft.tensor is not callable\n  hint: Tensor(data) makes a"),
    (lambda: nn.Linear(2, 3).forward(x), AttributeError, "'Linear' object has no attribute 'forward'\n  hint: call t"),
    (lambda: nn.ReLU().parameters(), AttributeError, "\n  hint: nn.state.get_parameters(model) lists the tensors"),
    (lambda: nn.Linear(2, 3).state_dict(), AttributeError, "\n  hint: nn.state.get_state_dict(model) has the tensors"),
    (lambda: nn.BatchNorm2d(3).eval(), AttributeError, "\n  hint: with Tensor.train(): ... is training, anything"),
    (lambda: nn.Sequential().train(), AttributeError, "'Sequential' object has no attribute 'train'\n  hint: with"),
    (lambda: nn.Linear(2, 3).weigth, AttributeError, "'Linear' object has no attribute 'weigth'"),
    (lambda: nn.state.safe_save(nn.Linear(2, 3), "x"), TypeError, "\n  hint: nn.state.get_state_dict(model) has t"),
    (lambda: x.size(2), IndexError, "size(2): shape (2, 3) has 2 axes, the first of which is 0"),
    (lambda: Tensor.linspace(0, 1, 3, devcie="CPU"), TypeError, "~ 'device'?"),
    (lambda: x.to("CPU", dtype="half"), TypeError, "to() got an unexpected keyword argument 'dtype'\n  hint: cast ch"),
    (lambda: x.sum().backward(create_graph=True), TypeError, "'create_graph'\n  hint: loss.gradient(t) gives gradi"),
    (lambda: x.sum().backward(inputs=[x]), TypeError, "'inputs'\n  hint: loss.gradient(*tensors) gives the gradien"),
    (lambda: x.view(size=(6,)), TypeError, "'size'\n  hint: sizes have no name: t.view(4, 2)"),
    (lambda: nn.no_grad(), AttributeError, "has no attribute 'no_grad'\n  hint: Tensor.no_grad() is a block without"),
])  # fmt: skip
def test_sentences(mistake: Callable[[], object], kind: type[Exception], text: str) -> None:
    """Each mistake raises its kind of error, whose text has the sentence, ~ for the hint; without one there is none."""
    text = text.replace("~", "\n  hint: did you mean")
    with pytest.raises(kind, match=re.escape(text)) as found:
        mistake()
    assert ("hint" in str(found.value)) == ("hint" in text or "the dtypes are" in text or "made at" in text)


def test_other_errors_of_a_call_stay_as_they_are() -> None:
    """A missing argument, and a TypeError that a method raises itself, are not about keywords."""
    with pytest.raises(TypeError, match=r"unfold\(\) missing 1 required positional argument: 'step'$"):
        x.unfold(1, 0)

    class Odd:
        def __index__(self) -> int:
            raise TypeError("odd")

    with pytest.raises(TypeError, match="odd|integer"):
        x.sum(axis=Odd())


def test_private_names_have_no_hint_and_are_looked_up_at_once() -> None:
    """What protocols look for, `_repr_png_`, is not searched for."""
    with pytest.raises(AttributeError, match=r"no attribute '_repr_png_'$"):
        _ = x._repr_png_
    assert not hasattr(dtypes, "__array__")


@pytest.mark.parametrize(("line", "text"), [
    ("explian", "there is no command 'explian'; did you mean 'explain'?"),
    ("prof", "there is no command 'prof'; did you mean 'profile'?"),
    ("frobnicate", "there is no command 'frobnicate'; there are devices, doctor, settings, explain, profile,"),
    ("explain --pases x.py", "unrecognized arguments: --pases; did you mean --passes?"),
    ("--versoin", "unrecognized arguments: --versoin; did you mean --version?"),
    ("viz", "the following arguments are required: SCRIPT\n"),
    ("devices extra", "unrecognized arguments: extra\n"),
])  # fmt: skip
def test_the_command_line_answers(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command or option ends with 2 and the one that was meant."""
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert (end.value.code, text in capsys.readouterr().err) == (2, True)


def test_values_of_a_state_may_be_arrays() -> None:
    """load_state_dict takes arrays of NumPy as those of other libraries; another object is named with its key."""
    layer = nn.Linear(2, 3)
    nn.state.load_state_dict(layer, {"weight": np.ones((3, 2), np.float32), "bias": np.zeros(3)})
    assert layer.weight.tolist() == [[1.0, 1.0]] * 3
    with pytest.raises(TypeError, match="a state has tensors or arrays, 'bias' is str"):
        nn.state.load_state_dict(layer, {"weight": np.ones((3, 2), np.float32), "bias": "zeros"})


def test_pytorchs_tensors_are_taken() -> None:
    """A state dict, a parameter, and bfloat16, which NumPy lacks; the values are copied."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    own, theirs = nn.Linear(3, 4), torch.nn.Linear(3, 4)
    nn.state.load_state_dict(own, theirs.state_dict())
    assert own.weight.tolist() == theirs.weight.tolist()
    assert Tensor(torch.nn.Parameter(torch.ones(2))).tolist() == [1.0, 1.0]
    source = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    taken = Tensor(source)
    source[0] = 7
    assert (taken.tolist(), taken.dtype, Tensor(source, dtype="float32").dtype) == (
        [1.0, 2.5],
        dtypes.bfloat16,
        dtypes.float,
    )


def test_closest() -> None:
    """Whatever the case; of several the most alike; none where nothing is."""
    assert closest("LINEAR", ["Linear", "Bilinear"]) == "Linear"
    assert closest("", ["a"]) == closest("a", []) == ""


def test_a_search_is_not_repeated() -> None:
    """The second hasattr of a name costs no search; difflib is loaded by the first mistake only."""
    code = "import sys, tinygraft; tinygraft.Tensor; print('difflib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    from tinygraft.tensor.compat.missing import _closest

    _closest.cache_clear()
    assert not any(hasattr(x, "sofmx") for _ in range(5))
    assert (_closest.cache_info().misses, _closest.cache_info().hits) == (1, 4)


@pytest.mark.parametrize("name", ["float8", "fp8", "float8_e4m3b11fnuz"])
def test_floats_of_eight_bits_are_four(name: str) -> None:
    """None is meant by the short name, so all are named; those of other libraries are accepted."""
    with pytest.raises(DTypeError) as caught:
        x.cast(name)
    assert str(caught.value).endswith("hint: did you mean 'fp8e4m3' or 'fp8e5m2' or 'fp8e4m3fnuz' or 'fp8e5m2fnuz'?")
    assert [to_dtype(f"float8_{kind}") for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")] == list(dtypes.fp8s)


@pytest.mark.parametrize(("mistake", "kind", "text"), [
    (lambda: Tensor.randint(0, 10, (3,)), ShapeError, "randint takes the shape first and the bounds by name, got 0, "
     "10, (3,)\n  hint: Tensor.randint(3, low=0, high=10)"),
    (lambda: Tensor.normal(0, 1, (2, 3)), ShapeError, "normal takes the shape first and the numbers by name, got 0, 1, "
     "(2, 3)\n  hint: Tensor.normal(2, 3, mean=0, std=1)"),
    (lambda: Tensor.randint(7, (2, 3)), ShapeError, "randint takes the shape first and the bounds by name, got 7, "
     "(2, 3)\n  hint: Tensor.randint(2, 3, low=0, high=7)"),
    (lambda: x.to(dtypes.float16), DeviceError, "a device is named by a string NAME or NAME:ordinal, got dtypes.half"
     "\n  hint: cast(dtypes.half) gives another dtype"),
    (lambda: nn.optim.SGD([Tensor([1.0])], lr="0.1"), TypeError,
     "SGD needs lr to be a number, or a tensor of one, got '0.1'"),
    (lambda: nn.optim.Adam([Tensor([1.0])], b1=None), TypeError, "Adam needs b1 to be a number, got None"),
    (lambda: nn.optim.SGD([]), TrainingError, "the optimizer got an empty list of parameters\n"
     "  hint: nn.state.get_parameters(model) finds those of a model"),
    (lambda: nn.optim.SGD([Tensor([1, 2])]), TrainingError, "the optimizer got 1 tensor and none to train: of int, and "
     "only floats are trained\n  hint: t.float() makes floats of them"),
    (lambda: nn.state.torch_load(Tensor(b"GGUF" + bytes(9))), FileFormatError, "this file is not from torch.save: it "
     "begins with b'GGUF\\x00\\x00\\x00\\x00\\x00'\n  hint: gguf_load reads it"),
    (lambda: nn.state.torch_load(Tensor(b"@\0\0\0\0\0\0\0{}")), FileFormatError, "this file is not from torch.save: it "
     "begins with b'@\\x00\\x00\\x00\\x00\\x00\\x00\\x00{'\n  hint: safe_load reads it, if it is a safetensors file"),
])  # fmt: skip
def test_arguments_of_another_kind(mistake: Callable[[], object], kind: type[Exception], text: str) -> None:
    """In the order of PyTorch, of another type, or from another format: the whole sentence."""
    with pytest.raises(kind) as found:
        mistake()
    assert str(found.value) == text


@pytest.mark.parametrize("name", ["torch.float32", "np.float32", "numpy.float32", "dtypes.float32"])
def test_a_dtype_is_named_as_others_print_it(name: str) -> None:
    """A dtype that came out of a file of settings is a text."""
    assert to_dtype(name) is dtypes.float32


def test_without_a_command_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """As --help does, on stderr and with 2."""
    assert main([]) == 2
    assert "commands:\n  devices" in capsys.readouterr().err


@pytest.mark.parametrize("make", [
    lambda: Tensor([1, 2], requires_grad=True), lambda: Tensor([1, 2]).requires_grad_(),
    lambda: Tensor.ones(2, dtype="int32", requires_grad=True), lambda: Tensor.randint(2, requires_grad=True),
])  # fmt: skip
def test_integers_that_should_have_a_gradient_are_warned_of(make: Callable[[], Tensor]) -> None:
    """PyTorch raises; tinygrad takes the flag, and so does a script that comes from it."""
    with pytest.warns(UserWarning, match="requires_grad") as found:
        assert make().requires_grad is True
    assert [str(each.message) for each in found] == [
        "requires_grad=True does nothing for a tensor of int: only floats have a gradient\n"
        '  hint: write the values as floats, such as [1.0, 2.0], or give dtype="float32"'
    ]
    assert found[0].filename == __file__


def test_one_file_is_no_folder_of_a_sharded_checkpoint(tmp_path: Path) -> None:
    """The operating system's sentence named a file that nobody had named."""
    path = tmp_path / "a.safetensors"
    nn.state.safe_save({"a": Tensor([1.0])}, path)
    with pytest.raises(NotADirectoryError) as caught:
        nn.state.load_sharded(path)
    assert str(caught.value) == (
        f"{path} is one file; load_sharded reads a folder, or an index *.safetensors.index.json\n"
        "  hint: nn.state.safe_load(path) reads one file of safetensors, torch_load one of PyTorch"
    )


def test_a_loss_of_each_with_each_is_warned_of() -> None:
    """(3, 1) predictions and (3,) targets have 9 losses. Others that broadcast are taken as they are."""
    with pytest.warns(UserWarning, match="loss") as found:
        assert Tensor.ones(3, 1).mse_loss(Tensor.ones(3)).shape == ()
    assert [str(each.message) for each in found] == [
        "a loss of shapes (3, 1) and (3,) is of each with each, which is shape (3, 3)\n"
        "  hint: give both one shape, as in target.reshape(3, 1)"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in (Tensor.ones(3, 1), Tensor.ones(3, 3), Tensor(1.0), 1.0, [[1.0]]):
            Tensor.ones(3, 1).mse_loss(target)


def test_zeros_and_ones_take_their_shape_by_name() -> None:
    """As NumPy's do; both was full() that had two."""
    assert Tensor.zeros(shape=(2, 3)).shape == Tensor.ones(shape=(2, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match="shape"):
        Tensor.zeros(2, shape=(2, 3))
