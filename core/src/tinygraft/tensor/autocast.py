"""Mixed precision: which methods compute in a half type, and which in float32, where AUTOCAST is set (`nn.autocast`).

In: a method. Out: one that casts the tensors among its arguments first: float32 to the half type, or half types to
float32. Casts are part of the graph, and gradients come back in the dtype of each tensor. Float64 is left as it is.
The tables follow PyTorch's for CUDA ("Automatic Mixed Precision", its documentation of torch.amp), but for pow, which
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from tinygraft.config import AUTOCAST, Context
from tinygraft.device.known import NAMES
from tinygraft.dtype import DType, dtypes, to_dtype
from tinygraft.errors import SettingError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import check_flags, flags_of, unknown_keyword

HALF = (dtypes.float16, dtypes.bfloat16)
# products: what matrix units do
NARROW = frozenset({
    "matmul", "linear", "einsum", "conv2d", "conv_transpose2d", "scaled_dot_product_attention",
    "multi_head_attention_forward", "addmm", "addbmm", "baddbmm", "addmv", "addr",
})  # fmt: skip
# long sums, and functions of a large range or with much cancellation
WIDE = frozenset({
    "sum", "prod", "cumsum", "cumprod", "logcumsumexp", "norm", "vector_norm", "matrix_norm", "normalize", "dist",
    "cdist", "pdist", "renorm", "softmax", "log_softmax", "softmin", "logsumexp", "softplus", "layernorm",
    "layer_norm", "group_norm", "rms_norm", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "reciprocal",
    "rsqrt", "acos", "asin", "cosh", "sinh", "tan", "erfinv", "binary_crossentropy", "binary_crossentropy_logits",
    "sparse_categorical_crossentropy", "cross_entropy", "nll_loss", "ctc_loss", "l1_loss", "mse_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "cosine_similarity",
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "pairwise_distance", "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss",
    "multilabel_soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
})  # fmt: skip


# computed with AUTOCAST off, whose own products would lose the digits that they are for
WHOLE = frozenset({
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn",
    "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "qr", "linalg_qr", "newton_schulz", "lu_factor", "lu", "lu_solve",
    "solve_triangular", "cholesky", "cholesky_ex", "lu_factor_ex", "cholesky_solve", "cholesky_inverse", "solve",
    "inv", "inv_ex", "solve_ex", "inverse", "det", "slogdet", "logdet", "pinv", "pinverse", "matrix_rank", "lstsq",
    "matrix_exp", "tensorinv", "tensorsolve", "eigh", "eigvalsh", "svd", "svdvals",
})  # fmt: skip


def casting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return `method`, called `name`, as one that does what AUTOCAST says; a dtype that a caller gives wins."""
    narrow = name in NARROW
    flags = flags_of(method)  # none, where the method itself answers wrong ones

    @wraps(method)
    def cast_first(*args: Any, **kwargs: Any) -> Any:
        if flags:
            check_flags(name, flags, args, kwargs)
        casts = AUTOCAST.value and kwargs.get("dtype") is None
        if casts:
            args, kwargs = _changed(args, kwargs, narrow)
        try:
            if not casts:
                return method(*args, **kwargs)
            with Context(AUTOCAST="") if name in WHOLE else nullcontext():
                return method(*args, **kwargs)
        except TypeError as error:
            if kwargs and not hasattr(method, "__wrapped__"):  # else the method has answered
                unknown_keyword(error, method, kwargs)
            raise

    return cast_first


def _changed(args: tuple[Any, ...], kwargs: dict[str, Any], narrow: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with their tensors cast as AUTOCAST says: to the half type if `narrow`, else from it."""
    half = half_type(AUTOCAST.value)
    change = (lambda t: _to(t, (dtypes.float32, *HALF), half)) if narrow else (lambda t: _to(t, HALF, dtypes.float32))
    return tuple(_each(a, change) for a in args), {key: _each(a, change) for key, a in kwargs.items()}


def cast_in(module: dict[str, Any]) -> None:
    """Put what casts first in the place of the functions of a theme that AUTOCAST concerns, each once.

    In the module itself, so that a method is the function that its module has under its name: pickle finds it there.
    """
    for name in [name for name in module if name in NARROW or name in WIDE or name in WHOLE]:
        if getattr(module[name], "__module__", None) == module["__name__"] and not hasattr(module[name], "autocasts"):
            module[name] = casting(name, module[name])
            module[name].autocasts = True


def half_type(name: object) -> DType:
    """Return the dtype that AUTOCAST names. Raises SettingError for one that is no half type."""
    try:
        found = to_dtype(name)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = None
    if found not in HALF:
        known = isinstance(name, str) and name.partition(":")[0].upper() in NAMES
        hint = "\n  hint: it is for every device: nn.autocast()" if known else ""
        raise SettingError(f"AUTOCAST is bfloat16 or float16, got {getattr(name, 'name', name)!r}{hint}")
    return found


def narrowed(*tensors: Any) -> list[Any]:
    """Return tensors as AUTOCAST has the results of products: float32 becomes its half type, all else is as it is."""
    if not AUTOCAST.value:
        return list(tensors)
    half = half_type(AUTOCAST.value)
    return [_to(t, (dtypes.float32, *HALF), half) for t in tensors]


def _to(t: Any, those: tuple[DType, ...], dtype: DType) -> Any:
    return t._cast(dtype) if t.dtype in those and t.dtype is not dtype else t


def _each(argument: Any, change: Callable[[Any], Any]) -> Any:
    """Return an argument with its tensors changed, those in a list too."""
    if isinstance(argument, TensorBase):
        return change(argument)
    if isinstance(argument, (list, tuple)) and any(isinstance(item, TensorBase) for item in argument):
        return type(argument)(_each(item, change) for item in argument)
    return argument
