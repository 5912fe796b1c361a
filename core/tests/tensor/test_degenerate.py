"""Every method of Tensor on degenerate inputs, forward and backward, beside PyTorch and beside itself.

degenerate_calls.py has the calls. Shapes with no elements, no axis, axes of 1 and 33 axes are held to what PyTorch
gives or refuses; views that are reversed, transposed, strided, parts of something larger or one element repeated, to
what the same values give in memory of their own.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from degenerate_calls import calls
from tinygraft import Tensor
from tinygraft.config import Context
from tinygraft.errors import ShapeError, TinygraftError
from tinygraft.uop.ops import Ops

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

SHAPES = [(), (0,), (0, 3), (3, 0), (2, 0, 3), (1,) * 33]
CHUNK = 24  # calls in one test
ALL = calls()
CHUNKS = [ALL[i : i + CHUNK] for i in range(0, len(ALL), CHUNK)]


def data(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Different numbers between 0.1 and 0.9."""
    n = math.prod(shape)
    return ((np.random.default_rng(seed).permutation(n) + 1) / (n + 1) * 0.8 + 0.1).astype(np.float32).reshape(shape)


def inputs(shape: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    """What the names in the calls are."""
    n = math.prod(shape)
    along = sum(np.indices(shape)) % max(min(shape, default=1), 1) if shape else np.array(0)
    return {
        "t": data(shape, 1), "o": data(shape, 2), "k": np.asarray(along, np.int64).reshape(shape),
        "p": np.random.default_rng(3).permutation(n).reshape(shape), "b": (np.arange(n) % 2 == 0).reshape(shape),
        "i": np.zeros(0 if 0 in shape else 1, np.int64),
    }  # fmt: skip


def leaves(value: Any) -> list[Any]:
    """The values of a nested result, in order."""
    return [x for part in value for x in leaves(part)] if isinstance(value, (tuple, list)) else [value]


def weights(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """What elements are multiplied by before they are summed for a gradient, so that each counts differently."""
    return (np.cos(np.arange(math.prod(shape))) + 1.5).astype(np.float32).reshape(shape)


def ours(text: str, given: dict[str, Tensor], wrt: tuple[Tensor, Tensor]) -> tuple[list[Any], list[Any]]:
    """The results of a call, and the gradients of their sum. Complex numbers count as their parts."""
    found = leaves(eval(text, {"Ops": Ops}, dict(given)))
    found = [x.view_as_real() if isinstance(x, Tensor) and x.is_complex() else x for x in found]
    tensors = [x for x in found if isinstance(x, Tensor)]
    floats = [x for x in tensors if x.dtype.kind == "float"]
    grads: tuple[Tensor, ...] = ()
    if floats:
        total = sum(((x.float() * Tensor(weights(x.shape))).sum() for x in floats[1:]),
                    (floats[0].float() * Tensor(weights(floats[0].shape))).sum())  # fmt: skip
        grads = tuple(total.gradient(*wrt))
    if tensors:
        tensors[0].realize(*tensors[1:], *grads)
    values = [x.numpy() if isinstance(x, Tensor) else x for x in found]
    for x, value in zip(found, values, strict=True):
        assert not isinstance(x, Tensor) or x.shape == value.shape, f"says {x.shape}, has {value.shape}"
    return values, [g.numpy() for g in grads]


# Beside PyTorch

HOMES = (torch.special, torch.linalg, torch.fft, torch.nn.functional, torch)
# A call as PyTorch spells it, where it spells it in another way.
SPELLED = [
    (r"t\.(cat|stack|column_stack|dstack|hstack|vstack)\(o\)", r"torch.\1([t, o])"),
    (r"t\.(block_diag|cartesian_prod|broadcast_tensors|meshgrid|atleast_\dd)\(o\)", r"torch.\1(t, o)"),
    (r"t\.(max|min)\((0|-1)\)", r"t.a\1(\2)"),
    (r"t\.aminmax\((0|-1)\)", r"t.aminmax(dim=\1)"),
    (r"t\.(flip|logsumexp|amax|amin)\(\)", r"t.\1(tuple(range(t.ndim)))"),
    (r"t\.(solve|solve_ex|lu|cond|matrix_rank|pinv|vecdot|cross|matrix_norm|vector_norm|inv_ex|cholesky_ex|"
     r"lu_factor_ex|lu_factor)\((.*)\)", r"torch.linalg.\1(t, \2)"),
    (r"t\.qr\(\)", r"torch.linalg.qr(t, 'complete')"),
    (r"t\.linalg_(qr|norm|vander)\(\)", r"torch.linalg.\1(t)"),
    (r"t\.vander\(\)", r"torch.linalg.vander(t).flip(-1)"),
    (r"t\.(dot|image_dot)\(o\)", r"t.matmul(o)"),
    (r"t\.multi_dot\((.*)\)", r"torch.linalg.multi_dot(\1)"),
    (r"t\.chain_matmul\(\[t, o\]\)", r"torch.chain_matmul(t, o)"),
    (r"t\.linear\(o\.mT\)", r"t @ o.mT"),
    (r"t\.cross_entropy\(o\)", r"torch.nn.functional.cross_entropy(t, o)"),
    (r"b\.where\(t, o\)", r"torch.where(b, t, o)"),
    (r"t\.einsum\('(.*)', t\)", r"torch.einsum('\1', t)"),
    (r"t\.lstsq\(o\)\[0\]", r"torch.linalg.lstsq(t, o)[0]"),
    (r"t\.allclose\(o\)", r"torch.tensor(t.allclose(o))"),
    (r"t\.nbytes\(\)", r"t.nbytes"),
    (r"t\.T", r"t.transpose(0, 1) if t.ndim > 1 else t"),
    (r"t\.(i?fft[n2]?|i?fftshift)\(\)", r"torch.fft.\1(t)"),
    (r"t\.gelu\(\)", r"torch.nn.functional.gelu(t, approximate='tanh')"),
    (r"t\.softmin\((.*)\)", r"torch.nn.functional.softmin(t, \1)"),
    (r"t\.normalize\((.*)\)", r"torch.nn.functional.normalize(t, \1)"),
]  # fmt: skip


class Theirs(torch.Tensor):  # type: ignore[misc]
    """A tensor of PyTorch that has the functions of its modules as methods."""

    def __getattr__(self, name: str) -> Any:
        """The function of that name with this tensor in front. Raises LookupError where there is none."""
        for home in HOMES:
            if (found := getattr(home, name, None)) is not None:
                return lambda *args, **kwargs: found(self, *args, **kwargs)
        raise LookupError(name)


def theirs(text: str, given: dict[str, np.ndarray[Any, Any]]) -> tuple[list[Any], list[Any] | None]:
    """What PyTorch gives: the results, and the gradients where it has them."""
    names = {n: torch.tensor(v).as_subclass(Theirs) for n, v in given.items()}
    for n in "to":
        names[n] = names[n].detach().as_subclass(Theirs).requires_grad_()
    for pattern, spelled in SPELLED:
        text = re.sub(f"^{pattern}$", spelled, text)
    found = [x.as_subclass(torch.Tensor) if isinstance(x, torch.Tensor) else x for x in
             leaves(eval(text, {"torch": torch}, names))]  # fmt: skip
    found = [torch.view_as_real(x.resolve_conj()) if torch.is_tensor(x) and x.is_complex() else x for x in found]
    values = [x.detach().float().numpy() if torch.is_tensor(x) else x for x in found]
    grads = None
    floats = [x for x in found if torch.is_tensor(x) and x.is_floating_point()]
    if floats and all(x.requires_grad for x in floats):
        total = sum((x.float() * torch.tensor(weights(x.shape))).sum() for x in floats)
        try:
            made = torch.autograd.grad(total, [names[n] for n in "to"], allow_unused=True)
        except (RuntimeError, NotImplementedError):
            return values, None
        grads = [np.zeros_like(given[n]) if g is None else g.as_subclass(torch.Tensor).numpy(force=True)
                 for g, n in zip(made, "to", strict=True)]  # fmt: skip
    return values, grads


def same(a: Any, b: Any) -> bool:
    """Equal shapes, and values to 1e-3."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) == isinstance(b, np.ndarray)
    return a.shape == b.shape and np.allclose(a, b.astype(np.float64), 1e-3, 1e-4, equal_nan=True)


def problem(text: str, shape: tuple[int, ...]) -> str | None:
    """What is wrong with a call on one shape; None for nothing. What PyTorch refuses may be refused or have a value."""
    given = inputs(shape)
    want: tuple[list[Any], list[Any] | None] | None
    try:
        want = theirs(text, given)
    except Exception:
        want = None
    tensors = {name: Tensor(value, requires_grad=name in "to") for name, value in given.items()}
    try:
        got, grads = ours(text, tensors, (tensors["t"], tensors["o"]))
    except Exception as error:
        kind = isinstance(error, (TinygraftError, ValueError))
        return None if want is None and kind else f"{type(error).__name__}: {error}"
    if want is None:
        return None
    if len(want[0]) != len(got) or not all(map(same, got, want[0])):
        return f"values {got} not {want[0]}"
    if want[1] is not None and grads and not all(map(same, grads, want[1])):
        return f"gradients {grads} not {want[1]}"
    return None


# What differs, by call and shape, and why.
DIFFERENT = {
    r"t\.cond\(\) \(.*0.*\)": "NumPy has no condition of a matrix without elements either",
    r"t\.(i?fftn)\(\) \(\)": "a transform over no axis is refused",
    r"t\.nextafter\(o\) .*": "PyTorch has no derivative of it, and gives zeros",
    r"t\.cross_entropy\(o\) \(.*0.*\)": "the sum of no probabilities is 0; PyTorch divides by their number",
    r"t\.(mT|mH) \(\)": "a number has no last two axes; PyTorch warns that it will not transpose it for long",
    r"t\.as_strided_scatter\(.*": "PyTorch keeps the gradient of what src replaces",
    r"t\.(multi|multilabel)_margin_loss\(.*\) \(0, 3\)": "the mean of no losses is NaN; PyTorch gives what memory held",
    r"t\[None\]\.adaptive_avg_pool1d\(2\) \(0, 3\)": "no channels are refused",
    r"t\[None\]\.conv1d\(t\[None\]\) \(0, 3\)": "the sum over no channels is 0 for the one channel of the result",
    r"t\.batch_norm\(.*\) \(0,\)": "it needs an axis of channels",
    r"t\.dropout[23]d\(.*": "it needs channels and as many axes as its name says; PyTorch warns",
    r"t.*upsample_\w+\(.*\) 33 axes": "2**31 elements",
    r"t\.pdist\(\) \(.*0.*\)": "PyTorch ends the process in its gradient",
}


@pytest.fixture(autouse=True)
def small_kernels() -> Iterator[None]:
    """Kernels of a few elements, interpreted; graphs are checked elsewhere."""
    with Context(DEV="PYTHON", SPEC=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("chunk", range(len(CHUNKS)), ids=lambda n: CHUNKS[n][0])
def test_no_elements_no_axis_ones_and_many_axes(chunk: int) -> None:
    """Values and gradients are PyTorch's on every shape, or both refuse it."""
    wrong = []
    for text in CHUNKS[chunk]:
        for shape in SHAPES:
            case = f"{text} {shape if len(shape) < 9 else f'{len(shape)} axes'}"
            if not any(re.fullmatch(pattern, case) for pattern in DIFFERENT) and (found := problem(text, shape)):
                wrong.append(f"{case}: {found}")
    assert not wrong, "\n".join(wrong)


# Views


HEAVY = re.compile(r"svd|cond|matrix_|pinv|eig|norm\(|hash|keccak|lstsq|det|inv|lu|solve|chol|qr|tensor[is]|multi_dot")


def views(shape: tuple[int, int], seed: int) -> tuple[Tensor, Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A view that is reversed, transposed and strided, and its memory; the same values, and their places in it."""
    memory = data((2 * shape[1] + 1, 2 * shape[0] + 3), seed)
    pick = (slice(-1, 0, -2), slice(1, 2 * shape[0], 2))
    places = np.arange(memory.size).reshape(memory.shape)[pick].T
    base = Tensor(memory, requires_grad=True)
    return base[pick].T, base, memory[pick].T.copy(), places


def repeated(shape: tuple[int, int], seed: int) -> tuple[Tensor, Tensor, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A reversed row in the place of every row, as a view of the row."""
    memory = data(shape[1:], seed)
    base = Tensor(memory, requires_grad=True)
    places = np.broadcast_to(np.arange(shape[1])[::-1], shape)
    return base[::-1].expand(shape), base, memory[places], places


def view_problem(text: str, make: Any, other: Any) -> str | None:
    """What is wrong with a call on views; None for nothing."""
    shape = (2, 2) if HEAVY.search(text) else (3, 3)
    given = inputs(shape)
    t, t_base, t_values, t_places = make(shape, 4)
    o, o_base, o_values, o_places = other(shape, 5)
    plain = {name: Tensor(value) for name, value in given.items() if name not in "to"}
    flat = {"t": Tensor(t_values, requires_grad=True), "o": Tensor(o_values, requires_grad=True)}
    turned = {name: Tensor(given[name].T[::-1].copy())[::-1].T for name in "kpb"} | {"i": plain["i"]}
    try:
        want, want_grads = ours(text, {**plain, **flat}, (flat["t"], flat["o"]))
    except TinygraftError:
        want = None
    try:
        got, grads = ours(text, {**turned, "t": t, "o": o}, (t_base, o_base))
    except TinygraftError as error:
        return None if want is None else str(error)
    if want is None or len(got) != len(want) or not all(map(same, got, want)):
        return f"values {got} not {want}"
    for grad, whole, places in zip(grads, want_grads, (t_places, o_places), strict=False):
        expected = np.zeros(grad.size, np.float32)
        np.add.at(expected, places.ravel(), whole.ravel())
        if not same(grad.ravel(), expected):
            return f"gradients {grad.ravel()} not {expected}"
    return None


@pytest.mark.parametrize("chunk", range(len(CHUNKS)), ids=lambda n: CHUNKS[n][0])
def test_views_are_as_good_as_memory_in_order(chunk: int) -> None:
    """Values and gradients of a view are those of the same values in memory of their own."""
    found = {text: view_problem(text, views, repeated) for text in CHUNKS[chunk]}
    assert not any(found.values()), "\n".join(f"{text}: {said}" for text, said in found.items() if said)


# Arrays that a tensor is made of


def layouts(a: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """An array of three axes as numpy can hold it; each is equal to a, or to what its name says of a."""
    wide = np.zeros((2, *a.shape[:2], 2 * a.shape[2] + 1), a.dtype)
    wide[1, :, :, 1::2] = a
    locked = a.copy()
    locked.flags.writeable = False
    odd = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape)
    swapped = a.astype(a.dtype.newbyteorder(">"))
    windows = np.lib.stride_tricks.as_strided(a, (3, 4), (a.itemsize, a.itemsize))
    return {
        "Fortran order": np.asfortranarray(a), "reversed": a[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "strided, of something larger": wide[1, :, :, 1::2], "read-only": locked, "badly aligned": odd,
        "big-endian": swapped, "big-endian, reversed": swapped[::-1].copy()[::-1],
        "big-endian in Fortran order": np.asfortranarray(swapped), "overlapping": windows,
        "overlapping, reversed": windows[::-1, ::-1], "one element repeated": np.broadcast_to(a[:1, :1, :1], a.shape),
        "no axis": a[0, 0, 0:1].reshape(()), "an element": a[0, 0, 1, ...], "no elements": a[:, :0, ::-1],
        "ones": a[:1, None, :1, None, :1], "33 axes": a.reshape(a.shape + (1,) * 30)[::-1],
        "transposed": a.transpose(2, 0, 1), "a matrix": a[0].view(np.ndarray),
    }  # fmt: skip


DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64"


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_arrays_of_every_layout_become_tensors(dtype: str) -> None:
    """Same values, dtype and shape, in memory that the array does not share; an array in an expression too."""
    a = (np.arange(24) % 7 * (dtype != "bool") + (np.arange(24) % 2 == 0)).astype(dtype).reshape(2, 3, 4)
    made = {name: (array.copy(), array, Tensor(array)) for name, array in layouts(a).items()}
    Tensor.realize(*(t for _, _, t in made.values()))
    for name, (kept, array, t) in made.items():
        assert t.dtype.name == Tensor(a).dtype.name and t.shape == array.shape, name
        np.testing.assert_array_equal(t.numpy(), kept, err_msg=name)
        if array.flags.writeable:
            array[...] = 1 - array
            np.testing.assert_array_equal(t.numpy(), kept, err_msg=f"{name}: changed with the array")
            array[...] = kept


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_arrays_of_every_layout_beside_tensors(dtype: str) -> None:
    """An operand, an index and a value to be stored may be any array; the gradient of the tensor is right."""
    a = np.arange(1, 25).astype(dtype).reshape(2, 3, 4)
    for name, array in layouts(a).items():
        t = Tensor(np.ones(array.shape, np.float32), requires_grad=True)
        found = t * array
        np.testing.assert_array_equal(found.numpy(), array, err_msg=name)
        np.testing.assert_array_equal(found.sum().gradient(t)[0].numpy(), array, err_msg=name)
        new = Tensor.zeros(*array.shape).contiguous()
        new[...] = array
        np.testing.assert_array_equal(new.numpy(), array, err_msg=name)
        if dtype == "int64" and array.size:
            np.testing.assert_array_equal(Tensor(np.arange(30))[array].numpy(), array, err_msg=name)


def test_arrays_of_every_layout_are_shared_or_copied() -> None:
    """from_dlpack takes what numpy gives out, and copies what does not lie in order."""
    a = np.arange(1, 25).astype(np.float32).reshape(2, 3, 4)
    for name, array in layouts(a).items():
        if array.dtype.byteorder == ">" or name == "33 axes":
            continue  # numpy gives out neither
        np.testing.assert_array_equal(Tensor.from_dlpack(array).numpy(), array, err_msg=name)


def test_more_axes_than_numpy_has() -> None:
    """Tensors go on beyond numpy's 64 axes; what numpy cannot hold is refused by what it is."""
    t = Tensor([1.0, 2.0]).reshape((1,) * 64 + (2,))
    assert (t + t).sum(0).reshape(2).tolist() == [2.0, 4.0]
    with pytest.raises(ShapeError) as caught:
        t.numpy()
    assert re.fullmatch(
        r"a numpy array cannot have 65 axes, as this tensor has\n  made at .*\n  hint: reshape it first",
        str(caught.value),
    )
    with pytest.raises(ShapeError, match=r"a numpy array cannot have the shape \(0, 4611686018427387904\): array"):
        Tensor.zeros(0, 2**62).numpy()  # of no elements, as a file may claim it


# Whether all methods are here


APART = """
made of sizes and numbers: arange broadcast_shapes const empty empty_like eye fftfreq from_blob from_dlpack from_url
full invalids linspace logspace new_empty new_full new_ones new_tensor new_zeros ones rfftfreq scalar_tensor
tril_indices triu_indices window_bartlett window_blackman window_cosine window_exponential window_gaussian
window_general_cosine window_general_hamming window_hamming window_hann window_kaiser window_nuttall zeros
random: fractional_max_pool2d fractional_max_pool3d glorot_uniform gumbel_softmax kaiming_normal kaiming_uniform
manual_seed multinomial normal rand rand_like randint randn randn_like random_bits randperm scaled_uniform threefry
uniform
about the tensor, its gradient or its graph: as_param copy_ assign backward call callify custom_kernel device dtype grad
gradient is_param is_param_ lazydata linear_with_vars made_at max_numel max_shape replace requires_grad requires_grad_
schedule schedule_linear schedule_with_vars size training train test
where it lies: shard shard_ shard_like sharding to to_ to_device
of a file, or of a dozen weights: decode_hevc_frame multi_head_attention_forward
by older names: leakyrelu llvm_bf16_cast logsoftmax pad2d slice xor
"""


def test_every_method_is_called_or_stands_apart() -> None:
    """A new method needs a line in degenerate_calls.py, or a word in APART."""
    called = set(re.findall(r"\.(\w+)", " ".join(ALL)))
    public = {name for name in dir(Tensor) if not name.startswith("_")}
    assert public - called - set(APART.split()) == set()
