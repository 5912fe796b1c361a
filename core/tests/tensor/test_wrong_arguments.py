"""Arguments of a wrong type: the sentence names the method, what it needs and what it got."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, checkpoint, grad, jvp, nn, onnx, vmap
from tinygraft.errors import DeviceError, DTypeError, ShapeError
from tinygraft.nn.data import DataLoader, TensorDataset, random_split
from tinygraft.tensor.primitives.keyword_aliases import flags_of

t, m, i = Tensor([1.0, 2.0, 3.0]), Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1, 2, 0])
layer = nn.Linear(2, 2)
sgd = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
rates = nn.optim.lr_scheduler
a: Any = "a"
b: Any = "b"
CASES: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    # numbers
    "randperm needs an integer as n, got 'a'": (lambda: Tensor.randperm(a), DTypeError),
    "arange needs a number as stop, got 'a'": (lambda: Tensor.arange(a), DTypeError),
    "arange needs a number as step, got None": (lambda: Tensor.arange(0, 3, None), DTypeError),  # type: ignore[arg-type]
    "uniform needs a number as low, got 'a'": (lambda: Tensor.uniform(2, low=a), DTypeError),
    "size needs an integer as dim, got 'a'": (lambda: t.size(a), DTypeError),
    "a variance needs a number as correction, got 'a'": (lambda: t.std(correction=a), DTypeError),
    "quantile needs a number as a share, got 'a'": (lambda: t.quantile(a), DTypeError),
    "dropout needs a number as p, got 'a'": (lambda: t.dropout(a), DTypeError),
    "cross_entropy needs a number as label_smoothing, got 'a'": (
        lambda: m.cross_entropy(Tensor([0, 1]), label_smoothing=a), DTypeError),
    "one_hot needs an integer as num_classes, got 'a'": (lambda: i.one_hot(a), DTypeError),
    "multinomial needs an integer as num_samples, got 'a'": (lambda: t.multinomial(a), DTypeError),
    "fft needs an integer as a length, got 'a'": (lambda: t.fft(a), DTypeError),
    "stft needs an integer as n_fft, got 'a'": (lambda: t.stft(a), DTypeError),
    "attention needs a number as scale, got 'a'": (lambda: m.scaled_dot_product_attention(m, m, scale=a), DTypeError),
    "interpolate needs a number as scale_factor, got 'a'": (
        lambda: Tensor.ones(1, 1, 2, 2).interpolate(scale_factor=a), DTypeError),
    "a tensor is filled with numbers, got '1.5'": (lambda: t.scatter(0, i, "1.5"), DTypeError),
    "an axis is an integer, got <Tensor [1, 2, 0] int (3,) on CPU with grad None> for shape (3,)": (
        lambda: t.gather(i, 0), DTypeError),  # type: ignore[call-overload]
    # tensors
    "realize needs a tensor as each argument, got 1": (lambda: t.realize(1), DTypeError),  # type: ignore[arg-type]
    "cat takes tensors, got ndarray of NumPy, of shape (2,)": (
        lambda: t.cat(np.ones(2)), DTypeError),
    "stack takes tensors, got ndarray of NumPy, of shape (2,)": (
        lambda: Tensor.stack([t, np.ones(2)]), DTypeError),
    "einsum multiplies tensors, got ndarray of NumPy, of shape (2,)": (
        lambda: Tensor.einsum("i,i->", t, np.ones(2)), DTypeError),
    "view_as needs a tensor as other, got ndarray of NumPy, of shape (2,)": (
        lambda: t.view_as(np.ones(2)), DTypeError),
    "equal needs a tensor as other, got 'a'": (lambda: t.equal(a), DTypeError),
    "view_as needs a tensor as other, got 'a'": (lambda: t.view_as(a), DTypeError),
    "reshape_as needs a tensor as other, got 'a'": (lambda: t.reshape_as(a), DTypeError),
    "expand_as needs a tensor as other, got 3": (lambda: t.expand_as(3), DTypeError),  # type: ignore[arg-type]
    "attention needs a tensor as attn_mask, got 'a'": (
        lambda: m.scaled_dot_product_attention(m, m, attn_mask=a), DTypeError),
    "linear needs weights that are a tensor, numbers in a list or an array, got 'a'": (lambda: m.linear(a), DTypeError),
    "solve needs right sides that are a tensor, numbers in a list or an array, got 'a'": (
        lambda: m.solve(a), DTypeError),
    "kron needs factors that are a tensor, numbers in a list or an array, got 'a'": (lambda: t.kron(a), DTypeError),
    "bucketize needs boundaries that are a tensor, numbers in a list or an array, got 'a'": (
        lambda: t.bucketize(a), DTypeError),
    "masked_select needs a mask of bool, got dtypes.float": (lambda: t.masked_select(t), DTypeError),
    "grad is a tensor or None, got 3": (lambda: setattr(t, "grad", 3), DTypeError),
    "grad has the shape of its tensor, (3,), got (1,)": (lambda: setattr(t, "grad", Tensor([5.0])), ShapeError),
    "requires_grad is True, False or None, got 'a'": (lambda: t.requires_grad_(a), DTypeError),
    "requires_grad is True, False or None, got 'b'": (lambda: Tensor([1.0], requires_grad=b), DTypeError),
    "full needs True, False or None as requires_grad, got 'b'": (
        lambda: Tensor.full(2, 0.0, requires_grad=b), DTypeError),
    "dropout needs True, False or None as training, got 'a'": (lambda: t.float().dropout(0.5, a), DTypeError),
    "Linear takes a Tensor, got list": (lambda: layer([1.0, 2.0]), DTypeError),  # type: ignore[arg-type]
    "Embedding takes a Tensor, got str": (lambda: nn.Embedding(3, 3)(a), DTypeError),
    # what was asked for is named, not what is computed on the way
    "cannot floor-divide a tensor of shape (3,) and str": (lambda: t // a, DTypeError),
    "cannot take the remainder of a tensor of shape (3,) and str": (lambda: t % a, DTypeError),
    "cannot take the power of a tensor of shape (3,) and str": (lambda: t**a, DTypeError),
    "cannot combine a tensor of shape (3,) and str": (lambda: t.mse_loss(a), DTypeError),
    # functions, lists, names
    "einsum needs its formula first, as in Tensor.einsum('ij,jk->ik', a, b), got Tensor": (
        lambda: Tensor.einsum(m, m), DTypeError),  # type: ignore[arg-type]
    "sequential takes a list of functions and layers, got int": (lambda: m.sequential(3), DTypeError),  # type: ignore[arg-type]
    "sequential takes a list of functions and layers, got int in it": (
        lambda: m.sequential([3]), DTypeError),  # type: ignore[list-item]
    "shard needs the names of several devices as a tuple, got 3": (lambda: t.shard(3), DeviceError),  # type: ignore[arg-type]
    "Tensor.train takes True or False, got Linear": (lambda: Tensor.train(layer), DTypeError),  # type: ignore[arg-type]
    "Tensor.train takes True or False, got function": (lambda: Tensor.train(lambda: 3), DTypeError),  # type: ignore[arg-type]
    "Tensor.no_grad takes nothing, or a function to decorate, got Linear": (lambda: Tensor.no_grad(layer), DTypeError),
    "the module tinygraft.jit is not callable": (lambda: __import__("tinygraft.jit").jit(abs), TypeError),
    "vmap takes a function, got int": (lambda: vmap(3), TypeError),  # type: ignore[arg-type]
    "checkpoint takes a function, got int": (lambda: checkpoint(3), TypeError),  # type: ignore[arg-type]
    "jvp takes primals as a tuple, one for each argument, got Tensor": (lambda: jvp(lambda x: x, t, t), DTypeError),  # type: ignore[arg-type]
    "grad takes the number of an argument as argnums, or a tuple of them, got 'a'": (
        lambda: grad(lambda x: x.sum(), argnums=a)(t), DTypeError),
    # training
    "clip_grad_norm needs a number as max_norm, got 'a'": (lambda: nn.optim.clip_grad_norm([t], a), DTypeError),
    "clip_grad_norm needs a number as norm_type, got 'a'": (lambda: nn.optim.clip_grad_norm([t], 1.0, a), DTypeError),
    "clip_grad_value needs a number as clip_value, got None": (
        lambda: nn.optim.clip_grad_value([t], None), DTypeError),  # type: ignore[arg-type]
    "StepLR needs a number as gamma, got 'a'": (lambda: rates.StepLR(sgd, 3, gamma=a), DTypeError),
    "MultiStepLR needs milestones to be a list of steps, as [30, 80], got 3": (
        lambda: rates.MultiStepLR(sgd, 3), TypeError),  # type: ignore[arg-type]
    "LambdaLR takes a function of the number of steps, got int": (lambda: rates.LambdaLR(sgd, 3), TypeError),
    "LambdaLR needs a number as what lr_lambda returns, got 'a'": (
        lambda: rates.LambdaLR(sgd, lambda epoch: a), DTypeError),
    "OneCycleLR needs a number as max_lr, got 'a'": (lambda: rates.OneCycleLR(sgd, a, total_steps=3), DTypeError),
    "LinearLR needs a number as start_factor, got 'a'": (lambda: rates.LinearLR(sgd, a), DTypeError),
    "ReduceLROnPlateau.step needs a number as metrics, got 'a'": (
        lambda: rates.ReduceLROnPlateau(sgd).step(a), DTypeError),
    "EMA takes a list of tensors, got Tensor": (lambda: nn.optim.EMA(Tensor.ones(2, 2)), TypeError),
    "EMA takes a list of tensors, got int": (lambda: nn.optim.EMA(3), TypeError),  # type: ignore[arg-type]
    "EMA needs a number as decay, got 'a'": (lambda: nn.optim.EMA([t], a), DTypeError),
    "LossScaler needs a number as init_scale, got 'a'": (lambda: nn.optim.LossScaler(a), DTypeError),
    "LossScaler.scale takes the loss, a tensor, got int": (lambda: nn.optim.LossScaler().scale(3), TypeError),  # type: ignore[arg-type]
    "SGD.step takes no closure, got function": (lambda: sgd.step(lambda: 3), TypeError),  # type: ignore[arg-type]
    # flags
    "sum needs True or False as keepdim, got 1.5": (lambda: t.sum(keepdim=1.5), DTypeError),  # type: ignore[arg-type]
    "sum needs True or False as keepdim, got 'a'": (lambda: t.sum(0, keepdims=a), DTypeError),
    "sum needs True or False as keepdim, got 2": (lambda: t.sum(0, 2), DTypeError),  # type: ignore[arg-type]
    "sort needs True or False as descending, got 'no'": (lambda: t.sort(descending="no"), DTypeError),  # type: ignore[arg-type]
    "Adam needs True or False as amsgrad, got 'a'": (lambda: nn.optim.Adam([t], amsgrad=a), DTypeError),
    "SGD needs True or False as maximize, got 'a'": (lambda: nn.optim.SGD([t], lr=0.1, maximize=a), DTypeError),
    "Linear needs True or False as bias, got 'no'": (lambda: nn.Linear(2, 2, bias="no"), DTypeError),  # type: ignore[arg-type]
    "DataLoader needs True, False or None as shuffle, got 'a'": (lambda: DataLoader(t, 2, shuffle=a), DTypeError),
    "DataLoader needs True or False as drop_last, got 1.5": (
        lambda: DataLoader(t, 2, drop_last=1.5), DTypeError),  # type: ignore[arg-type]
    # data and files
    "load_state_dict takes a mapping of names to tensors, got float": (
        lambda: nn.state.load_state_dict(layer, 3.5), TypeError),  # type: ignore[arg-type]
    **{f"a file is named by its path, a str or os.PathLike, got {path!r}": (
        lambda read=read, path=path: read(path), TypeError) for path, read in [  # type: ignore[misc]
            (None, nn.state.safe_load), (3.5, nn.state.torch_load), ([1], nn.state.load_sharded),
            (4.5, nn.state.load_checkpoint), (5.5, lambda path: nn.state.save_checkpoint(path, layer=layer))]},
    "a sampler can be iterated over, and gives indices of samples, got int": (
        lambda: DataLoader(t, 2, sampler=3), DTypeError),  # type: ignore[arg-type]
    "collate_fn is a function of the list of samples, got int": (
        lambda: DataLoader(t, 2, collate_fn=3), DTypeError),  # type: ignore[arg-type]
    "a sample of a TensorDataset is found by its number, got 'a'": (lambda: TensorDataset(t)[a], DTypeError),
    "random_split needs lengths as a list of numbers, as [0.8, 0.2] or [80, 20], got 3": (
        lambda: random_split(t, 3), DTypeError),  # type: ignore[arg-type]
    "random_split() got an unexpected keyword argument 'generator'": (
        lambda: random_split(t, [1, 2], generator=3), TypeError),  # type: ignore[call-arg]
    "onnx.export takes a function, got int": (lambda: onnx.export(3, t), TypeError),  # type: ignore[arg-type]
    "export() got an unexpected keyword argument 'opset_version'": (
        lambda: onnx.export(layer, t, opset_version=17), TypeError),  # type: ignore[call-arg]
    "input_names is a list of names, as ['x'], got 'x'": (
        lambda: onnx.export(layer, m, input_names="x"), TypeError),
    'dynamic_axes is a dict such as {"x": {0: "batch"}}, got int': (
        lambda: onnx.export(layer, m, dynamic_axes=3), TypeError),  # type: ignore[arg-type]
    "run takes the names of outputs as a list, as ['y'], or None for all, got 'y'": (
        lambda: onnx.load(onnx.export(layer, m)).run("y", {}), TypeError),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_the_sentence_of_an_argument_of_a_wrong_type(sentence: str) -> None:
    """Its first line, in full."""
    call, kind = CASES[sentence]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == sentence


def test_numbers_of_numpy_and_tensors_are_numbers() -> None:
    """What the checks let through, as before them."""
    assert Tensor.arange(np.int64(3)).shape == (3,)  # type: ignore[arg-type]
    assert Tensor([1, 2, 3]).float().quantile(np.float32(0.5)).item() == 2.0
    assert t.size(np.int64(0)) == 3  # type: ignore[arg-type]
    assert t.requires_grad_(np.bool_(False)).requires_grad is not None  # type: ignore[arg-type]
    assert nn.optim.clip_grad_norm([Tensor([1.0])], np.float64(1.0)).item() == 0.0
    assert [len(part) for part in random_split(t, np.array([1, 2]))] == [1, 2]  # type: ignore[arg-type]


def test_what_is_like_a_bool_is_a_flag() -> None:
    """0 and 1, and NumPy's."""
    yes: list[Any] = [True, 1, np.True_, np.int64(1)]
    no: list[Any] = [False, 0, np.False_, np.array(0)]
    assert [t.sum(0, keepdim=flag).shape for flag in yes] == [(1,)] * 4
    assert [t.sum(0, keepdim=flag).shape for flag in no] == [()] * 4


# of operators, which Python calls; what changes nothing; what has the sentence of all tensors (above)
UNREAD = ("reverse", "retain_graph", "do_update_stats", "requires_grad")
FLAGS = [
    (name, flag)
    for name in sorted(vars(Tensor))
    if not name.startswith("_") and inspect.isfunction(method := getattr(Tensor, name))
    for flag in [each.name for each in flags_of(inspect.unwrap(method))]
    if flag not in UNREAD
]


@pytest.mark.parametrize(("name", "flag"), FLAGS)
def test_every_flag_of_every_method_is_one(name: str, flag: str) -> None:
    """Of each parameter that is annotated as a bool; "no" was true in methods that AUTOCAST casts for."""
    with pytest.raises(DTypeError, match=f"^{name} needs True(, False or None| or False) as {flag}, got 'no'"):
        getattr(m, name)(**{flag: "no"})


def test_flags_that_may_be_none_are_checked_too() -> None:
    """align_corners: None is False."""
    image, grid = Tensor.ones(1, 1, 2, 2), Tensor.zeros(1, 1, 1, 2)
    for name, call in {
        "interpolate": lambda flag: image.interpolate((3, 3), "bilinear", flag),
        "grid_sample": lambda flag: image.grid_sample(grid, align_corners=flag),
        "affine_grid": lambda flag: Tensor.ones(1, 2, 3).affine_grid((1, 1, 1, 2), flag),
    }.items():
        for flag in (None, False, True, 1):
            call(flag).realize()
        with pytest.raises(DTypeError, match=f"^{name} needs True, False or None as align_corners, got 'no'"):
            call("no")


@pytest.mark.parametrize("given", [None, True, "X"])
def test_a_triangle_is_named_by_a_letter(given: Any) -> None:
    """None and True failed inside of eigh."""
    with pytest.raises(ValueError, match=f"^UPLO is L or U, got {given!r}"):
        m.eigh(given)


def test_there_are_many_flags() -> None:
    """So that the list above is one."""
    assert len(FLAGS) > 100


def test_vmap_of_a_number_has_it_for_each_example() -> None:
    """As in JAX; what is no number is left as it is."""
    assert vmap(lambda x: 3)(t).tolist() == [3, 3, 3]
    both = vmap(lambda x: {"a": x * 2, "b": [True, None]})(t)
    assert both["a"].tolist() == [2.0, 4.0, 6.0]
    assert both["b"][0].tolist() == [True, True, True]
    assert both["b"][1] is None
    assert vmap(lambda x: 1.5, out_axes=None)(t).tolist() == 1.5


def test_round_is_that_of_python() -> None:
    """round(t) and round(t, digits) round all elements."""
    assert round(Tensor([1.26, 2.5, -0.4])).tolist() == [1.0, 2.0, -0.0]
    assert [round(x, 3) for x in round(Tensor([1.26, 2.54]), 1).tolist()] == [1.3, 2.5]


def test_no_grad_decorates_without_parentheses() -> None:
    """As in PyTorch: @Tensor.no_grad above a function."""
    w = Tensor([1.0], requires_grad=True)

    @Tensor.no_grad
    def double(x: Tensor) -> Tensor:
        return x * 2

    assert double(w).requires_grad is False


@pytest.mark.parametrize("name", ["type_as", "stride", "pin_memory", "share_memory_", "storage", "apply_", "bernoulli"])
def test_a_name_of_pytorch_has_a_hint(name: str) -> None:
    """What to use instead."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'\n  hint: "):
        getattr(t, name)


@pytest.mark.parametrize("given", [list, np.array, Tensor])
def test_values_beside_a_tensor_are_a_list_an_array_or_a_tensor(given: Any) -> None:
    """A source, a mask, weights and a grid, as for any other argument; these failed inside of Python or NumPy."""
    zeros, at = Tensor.zeros(3), Tensor([0, 2])
    values, mask = given([1.0, 2.0]), given([True, False, True])
    assert zeros.scatter(0, at, values).tolist() == [1.0, 0.0, 2.0]
    assert zeros.scatter_add(0, at, values).tolist() == [1.0, 0.0, 2.0]
    assert zeros.scatter_reduce(0, at, values, "amax").tolist() == [1.0, 0.0, 2.0]
    assert zeros.masked_fill(mask, 9).tolist() == [9.0, 0.0, 9.0]
    assert at.bincount(values).tolist() == [1.0, 0.0, 2.0]
    assert Tensor([[[[1.0, 2.0], [3.0, 4.0]]]]).grid_sample(given([[[[0.0, 0.0]]]])).tolist() == [[[[2.5]]]]
    assert zeros.scatter(0, at, np.array(4.0)).tolist() == [4.0, 0.0, 4.0]
    with pytest.raises(DTypeError, match="^masked_fill needs bools that are a tensor, numbers in a list or an array"):
        zeros.masked_fill(None, 9)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf, (2.0, math.nan)])
def test_a_scale_is_finite(scale: Any) -> None:
    """It was an error of a conversion to int."""
    with pytest.raises(
        ValueError, match=r"^interpolate needs a scale_factor that is finite, got .* for shape \(1, 1, 2"
    ):
        Tensor.ones(1, 1, 2, 2).interpolate(scale_factor=scale)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_nearest_has_no_corners(mode: str) -> None:
    """As in PyTorch; it was ignored. False is the default here."""
    image = Tensor.ones(1, 1, 2, 2)
    with pytest.raises(ValueError, match=rf"^interpolate by {mode} has no samples .* got align_corners=True\n  hint"):
        image.interpolate((4, 4), mode, align_corners=True)
    assert image.interpolate((4, 4), mode, align_corners=False).shape == (1, 1, 4, 4)


def test_a_transposed_convolution_has_a_size_of_at_least_0() -> None:
    """It was an error of a shrink that nobody called."""
    x, weight = Tensor.ones(1, 1, 4, 4), Tensor.ones(1, 1, 3, 3)
    with pytest.raises(
        ShapeError, match=r"^conv_transpose2d has sizes \(6, 6\) before its padding, and padding 9 takes"
    ):
        x.conv_transpose2d(weight, padding=9)
    assert x.conv_transpose2d(weight, padding=3).shape == (1, 1, 0, 0)


def test_an_array_of_another_library_is_named_with_a_hint() -> None:
    """All of its numbers were printed, and the advice was about axes."""
    with pytest.raises(DTypeError) as caught:
        Tensor.cat(t, np.ones(1000))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "cat takes tensors, got ndarray of NumPy, of shape (1000,)\n"
        "  hint: Tensor(x) copies it, Tensor.from_dlpack(x) shares its memory"
    )
