"""Which methods Tensor has, and in which module each of them is: one row for each theme.

A method is a plain function whose first parameter is the tensor (or the class, in `classmethods`), under the method's
own name. A property is such a function too, and `set_NAME` beside it writes it. A theme is imported when one of its
methods is first used, so that `from tinygraft import Tensor` loads what every program needs; `EAGER` are those
that every program needs. `tensor.pyi` has the same methods with their types, for type checkers and editors; it is
written by `python docs/write_tensor_stub.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.engine.exclusive import import_late
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.state.storage import VIEWS, declare, declare_caller
from tinygraft.tensor.templates import METHODS, serve, templated


@dataclass(frozen=True)
class Theme:
    """A module below `tinygraft.tensor`, and the names of what it gives to Tensor, with spaces between them."""

    module: str
    methods: str = ""
    properties: str = ""
    classmethods: str = ""
    staticmethods: str = ""

    def names(self) -> dict[str, str]:
        """Return the kind of each name: methods, properties, classmethods or staticmethods."""
        kinds = ("methods", "properties", "classmethods", "staticmethods")
        return {name: kind for kind in kinds for name in getattr(self, kind).split()}

    def members(self) -> dict[str, Any]:
        """Import the module: each name with what a class has under it."""
        module = vars(import_late(f"tinygraft.tensor.{self.module}"))
        if self.module in AUTOCAST_THEMES:
            import_late("tinygraft.tensor.autocast").cast_in(module)
        return {name: _member(module, name, kind) for name, kind in self.names().items()}


THEMES = (
    # what methods are written with
    Theme(
        "primitives.movement",
        methods=(
            "reshape view view_as flatten unflatten squeeze unsqueeze expand expand_as broadcast_to permute "
            "transpose swapaxes movedim flip shrink _is_data shrink_to narrow split split_with_sizes chunk unbind "
            "unfold diagonal"
        ),
        properties="T mT",
    ),
    Theme("primitives.joining", methods="roll cat stack repeat tile repeat_interleave meshgrid pad pad_to"),
    Theme(
        "primitives.casting",
        methods="cast bitcast float double cfloat cdouble half bfloat16 int long short byte char bool",
    ),
    Theme(
        "primitives.creation",
        methods="new_full new_zeros new_ones new_empty full_like zeros_like ones_like empty_like const_like",
        classmethods="_from empty full zeros ones arange linspace eye invalids const logspace scalar_tensor",
    ),
    Theme(
        "primitives.operators",
        methods=(
            "__neg__ __pos__ __invert__ __abs__ __round__ __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ "
            "__pow__ __matmul__ __and__ __or__ __xor__ __lshift__ __rshift__ __radd__ __rsub__ __rmul__ __rtruediv__ "
            "__rfloordiv__ __rmod__ __rpow__ __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ __lt__ "
            "__gt__ __le__ __ge__ __eq__ __ne__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ "
            "__ipow__ __imatmul__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__"
        ),
    ),
    Theme(
        "primitives.elementwise",
        methods=(
            "_is_float _in_float _in_field _real _conj _narrowed add sub mul div mod fmod pow _const_power square "
            "lerp maximum minimum neg abs sign copysign trunc floor ceil round clamp clip"
        ),
    ),
    Theme(
        "primitives.comparison",
        methods=(
            "eq ne isclose isnan isinf isfinite logical_not bitwise_not bitwise_and bitwise_or bitwise_xor lshift "
            "rshift"
        ),
    ),
    Theme(
        "primitives.transcendental",
        methods=(
            "sqrt rsqrt reciprocal exp2 exp expm1 log2 log log10 log1p logaddexp sin cos tan atan asin acos sinh "
            "cosh tanh asinh acosh atanh erf"
        ),
    ),
    Theme(
        "primitives.reduce",
        methods=(
            "sum prod max min any all allclose mean var var_mean std std_mean softmax log_softmax softmin "
            "logsumexp normalize layernorm batchnorm argmax argmin"
        ),
    ),
    Theme("primitives.matmul", methods="matmul dot _product linear", classmethods="einsum"),
    Theme(
        "primitives.indexing",
        methods=("__getitem__ __setitem__ __delitem__ gather scatter scatter_reduce"),
    ),
    Theme("primitives.masking", methods="where masked_fill masked_select nonzero one_hot"),
    # what a tensor is besides its node
    Theme("state.device_transfer", methods="to to_ shard shard_ shard_like _become", properties="sharding"),
    Theme("state.gradient", methods="backward gradient"),
    # values in and out
    Theme(
        "data.properties",
        methods="numel dim element_size nbytes is_floating_point is_complex __repr__ _repr_html_ __len__",
        properties="lazydata size max_shape",
    ),
    Theme(
        "data.reading",
        methods=(
            "_stored _numbers item tolist numpy __array__ __buffer__ __bool__ __format__ __int__ __float__ __complex__ "
            "__index__ __iter__"
        ),
    ),
    Theme("data.realizing", methods="realize schedule_with_vars schedule contiguous contiguous_backward"),
    Theme("data.copying", methods="clone __copy__ __deepcopy__ __reduce__ __reduce_ex__"),
    Theme("data.assigning", methods="detach requires_grad_ assign copy_ _value_for replace"),
    Theme(
        "data.sharing",
        methods="data _memory __array_namespace__ to_device __dlpack_device__ __dlpack__",
        classmethods="from_url from_blob from_dlpack",
    ),
    Theme("data.digest", methods="keccak hash"),
    # the themes
    Theme("ops.custom_kernels", methods="custom_kernel"),
    Theme(
        "ops.indexing.selection",
        methods=(
            "index_select index_add index_copy index_fill index_reduce scatter_add take put index_put "
            "take_along_dim select select_scatter slice_scatter diagonal_scatter as_strided as_strided_scatter "
            "masked_scatter argwhere nonzero_static"
        ),
    ),
    Theme(
        "ops.linalg.products",
        methods=(
            "outer ger inner vdot vecdot mm mv bmm addmm addmv addr baddbmm addbmm tensordot kron cross trace "
            "vander linalg_vander"
        ),
        classmethods="multi_dot chain_matmul",
    ),
    Theme("ops.linalg.triangles", methods="triu tril qr _reflected_to linalg_qr newton_schulz"),
    Theme(
        "ops.linalg.decompositions",
        methods=(
            "_with_gradient _height lu_factor lu lu_unpack lu_solve solve_triangular cholesky cholesky_ex "
            "lu_factor_ex cholesky_solve cholesky_inverse"
        ),
    ),
    Theme(
        "ops.linalg.solve",
        methods=(
            "solve inv inv_ex solve_ex inverse det slogdet logdet pinv pinverse matrix_rank lstsq matrix_power "
            "matrix_exp tensorinv tensorsolve"
        ),
    ),
    Theme("ops.linalg.eigen", methods="eigh eigvalsh svd svdvals _apart _aligned _mirrored_from"),
    Theme("ops.linalg.householder", methods="geqrf householder_product orgqr ormqr triangular_solve"),
    Theme("ops.linalg.norms", methods="vector_norm matrix_norm linalg_norm norm dist cdist pdist renorm cond"),
    Theme(
        "ops.math.pointwise",
        methods=(
            "lt le gt ge true_divide floor_divide remainder rsub positive bitwise_left_shift bitwise_right_shift "
            "clamp_min clamp_max logical_and logical_or logical_xor equal isposinf isneginf frac "
            "heaviside fmax fmin gcd lcm hypot atan2 float_power xlogy xlog1py logaddexp2 addcmul addcdiv deg2rad "
            "rad2deg sinc logit"
        ),
    ),
    Theme(
        "ops.math.complex_parts",
        methods=(
            "sgn conj conj_physical resolve_conj resolve_neg isreal view_as_complex view_as_real complex polar angle"
        ),
        properties="real imag",
    ),
    Theme("ops.math.floating", methods="signbit nan_to_num frexp ldexp nextafter"),
    Theme(
        "ops.math.special",
        methods="cbrt erfc erfcx erfinv ndtr ndtri log_ndtr entr lgamma mvlgamma digamma polygamma zeta i0e i0 i1e i1",
    ),
    Theme(
        "ops.nn.activation",
        methods=(
            "relu relu6 leaky_relu _sigmoid sigmoid logsigmoid softplus softsign swish silu quick_gelu gelu mish "
            "elu celu selu hardsigmoid hardswish hardtanh"
        ),
    ),
    Theme(
        "ops.nn.convolution",
        methods="conv2d conv_transpose2d conv1d conv3d conv_transpose1d conv_transpose3d sequential",
    ),
    Theme(
        "ops.nn.pooling",
        methods=(
            "max_pool1d max_pool3d avg_pool1d avg_pool3d max_unpool1d max_unpool3d lp_pool1d lp_pool2d lp_pool3d "
            "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
            "adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d"
        ),
    ),
    Theme("ops.nn.pooling_windows", methods="avg_pool2d max_pool2d max_unpool2d"),
    Theme("ops.nn.im2col", methods="functional_unfold fold pixel_shuffle pixel_unshuffle channel_shuffle"),
    Theme(
        "ops.nn.normalization", methods="layer_norm rms_norm group_norm instance_norm batch_norm local_response_norm"
    ),
    Theme("ops.nn.attention", methods="multi_head_attention_forward"),
    Theme("ops.nn.scaled_attention", methods="scaled_dot_product_attention"),
    Theme("ops.nn.embedding", methods="embedding embedding_bag bilinear"),
    Theme(
        "ops.nn.further_activation", methods="hardshrink softshrink tanhshrink threshold prelu rrelu glu gumbel_softmax"
    ),
    Theme("ops.nn.dropout", methods="dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"),
    Theme("ops.nn.interpolate", methods="interpolate upsample_nearest upsample_bilinear"),
    Theme("ops.nn.grid_sample", methods="grid_sample affine_grid"),
    Theme(
        "ops.nn.loss",
        methods=(
            "binary_crossentropy binary_crossentropy_logits sparse_categorical_crossentropy cross_entropy nll_loss"
        ),
    ),
    Theme("ops.nn.ctc", methods="ctc_loss"),
    Theme(
        "ops.nn.regression_losses",
        methods=(
            "l1_loss mse_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss gaussian_nll_loss "
            "cosine_similarity pairwise_distance cosine_embedding_loss hinge_embedding_loss margin_ranking_loss "
            "triplet_margin_loss triplet_margin_with_distance_loss"
        ),
    ),
    Theme(
        "ops.nn.classification_losses",
        methods=(
            "binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss multilabel_soft_margin_loss "
            "multi_margin_loss multilabel_margin_loss linear_cross_entropy"
        ),
    ),
    Theme(
        "ops.random",
        methods="threefry rand_like randn_like multinomial _as_units",
        classmethods=(
            "random_bits rand randn normal uniform randint randperm scaled_uniform glorot_uniform kaiming_uniform "
            "kaiming_normal _drawn_key"
        ),
        staticmethods="manual_seed",
    ),
    Theme("ops.reduce.scan", methods="cumsum cumprod cummax cummin logcumsumexp"),
    Theme(
        "ops.reduce.statistics",
        methods=(
            "amax amin aminmax nansum nanprod nanmean nanvar nanstd nanmax nanmin count_nonzero msort kthvalue "
            "median nanmedian mode quantile nanquantile"
        ),
    ),
    Theme("ops.reduce.histograms", methods="bincount histc histogram"),
    Theme("ops.reduce.differences", methods="diff trapezoid trapz cumulative_trapezoid cov corrcoef _within_one"),
    Theme(
        "ops.reduce.masked",
        methods=(
            "masked_sum masked_prod masked_cumsum masked_cumprod masked_amax masked_amin masked_argmax "
            "masked_argmin masked_mean masked_median masked_norm masked_var masked_std masked_softmax "
            "masked_log_softmax masked_softmin masked_logsumexp masked_logaddexp masked_normalize"
        ),
    ),
    Theme("ops.shape.rearrange", methods="rearrange"),
    Theme(
        "ops.shape.shaping",
        methods=(
            "ravel reshape_as t adjoint fliplr flipud rot90 sum_to_size diag_embed diag diagflat atleast_1d "
            "atleast_2d atleast_3d broadcast_tensors hstack vstack dstack column_stack block_diag tensor_split "
            "hsplit vsplit dsplit unravel_index cartesian_prod combinations"
        ),
        properties="H mH",
        classmethods="tril_indices triu_indices",
        staticmethods="broadcast_shapes",
    ),
    Theme(
        "ops.signal.fft",
        methods=(
            "fft ifft rfft irfft hfft ihfft fftn ifftn fft2 ifft2 rfftn irfftn hfftn ihfftn rfft2 irfft2 hfft2 "
            "ihfft2 fftshift ifftshift"
        ),
        classmethods="fftfreq rfftfreq",
    ),
    Theme("ops.signal.fourier", methods="_halves"),
    Theme("ops.signal.stft", methods="stft istft"),
    Theme(
        "ops.signal.windows",
        classmethods=(
            "window_general_cosine window_general_hamming window_hamming window_hann window_blackman "
            "window_nuttall window_bartlett window_cosine window_exponential window_gaussian window_kaiser"
        ),
    ),
    Theme("ops.sorting.sorting", methods="sort argsort topk _sort_keys"),
    Theme("ops.sorting.searching", methods="searchsorted bucketize isin"),
    Theme("ops.sorting.unique", methods="unique unique_consecutive _ranks"),
    # names of other libraries and of older versions
    Theme("compat.node_methods", methods="alu ufix usum uprod"),
    Theme(
        "compat.older_names",
        methods=(
            "max_numel is_param_ schedule_linear linear_with_vars callify as_param call image_dot image_conv2d "
            "decode_hevc_frame llvm_bf16_cast pad2d slice leakyrelu logsoftmax xor"
        ),
        properties="is_param",
    ),
)
_PLAIN = {
    "add", "sub", "mul", "div", "mod", "pow", "round", "backward", "gradient", "realize", "clone", "requires_grad_",
}  # fmt: skip
EAGER = (
    "data.properties", "state.device_transfer", "primitives.movement", "primitives.creation",
    "primitives.operators", "primitives.elementwise",
)  # fmt: skip

# the themes with methods whose arguments AUTOCAST casts (`autocast.py` has their names)
AUTOCAST_THEMES = frozenset({
    "primitives.matmul", "primitives.reduce", "primitives.transcendental", "ops.nn.convolution", "ops.nn.attention",
    "ops.nn.scaled_attention", "ops.nn.embedding", "ops.nn.activation", "ops.nn.normalization", "ops.nn.loss",
    "ops.nn.ctc", "ops.nn.regression_losses", "ops.linalg.norms", "ops.linalg.products", "ops.nn.classification_losses",
    "ops.reduce.scan",
    "ops.math.special", "ops.linalg.triangles", "ops.linalg.decompositions", "ops.linalg.solve", "ops.linalg.eigen",
    "ops.signal.fft",
})  # fmt: skip


class LateMember:
    """What stands for a member of Tensor until its theme is imported, which is when the member is first used."""

    home: type
    theme: Theme
    name: str

    def __init__(self, home: type, theme: Theme, name: str) -> None:
        self.home, self.theme, self.name = home, theme, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Import the theme, give its members to the class, and do what the member itself would do."""
        bind(self.home, self.theme)
        found = vars(self.home).get(self.name, self)
        if found is self or not hasattr(found, "__get__"):  # other code has replaced the member, or deleted it
            found = self.theme.members()[self.name]
        return found.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method: what `vars(Tensor)` has is a function there otherwise."""
        return self.__get__(None, self.home)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.name} of tinygraft.tensor.{self.theme.module}, to be imported>"


declare_caller(LateMember.__get__)


class LateProperty(LateMember):
    """A member that can be written, as a property can."""

    def __set__(self, instance: object, value: object) -> None:
        """Import the theme, give its members to the class, and write the property."""
        bind(self.home, self.theme)
        vars(self.home)[self.name].__set__(instance, value)


def _member(module: dict[str, Any], name: str, kind: str) -> Any:
    """Return function `name` of a module as it stands in a class: as a property, class method, ...

    `kind` is the field of the table in which the name is.
    """
    function = module[name]
    if kind == "properties":
        return property(function, module.get(f"set_{name}"))
    wrappers: list[Callable[[Any], Any]] = [either_spelling] if _has_keywords(name, function) else []
    if kind in ("methods", "classmethods") and name in METHODS:
        wrappers.append(templated)
    for wrapper in wrappers:
        function = wrapper(function)
        function.__qualname__, function.__module__ = f"Tensor.{name}", "tinygraft"  # where pickle finds it
    return {"classmethods": classmethod, "staticmethods": staticmethod}.get(kind, lambda found: found)(function)


def _has_keywords(name: str, function: Any) -> bool:
    """Return whether a method is to answer unknown keywords: it has optional ones, or hands them on, and is no view.

    Those of `either_spelling` do already, and the few that every program calls most are left as they are.
    """
    if name.startswith("_") or name in VIEWS or hasattr(function, "__wrapped__") or name in _PLAIN:
        return False
    return bool(function.__defaults__ or function.__kwdefaults__ or function.__code__.co_flags & inspect.CO_VARKEYWORDS)


def bind(cls: type, theme: Theme) -> None:
    """Put the members of a theme in the place of what stands for them in a class; what a user put there stays.

    Methods of the table `storage.VIEWS` are declared to give views.
    """
    for name, member in theme.members().items():
        declare(name, member)
        if isinstance(vars(cls).get(name), LateMember):
            setattr(cls, name, member)


def bind_all(cls: type) -> None:
    """Give all members to a class, those of themes that are not `EAGER` as what imports them."""
    serve(cls)
    for theme in THEMES:
        for name, kind in theme.names().items():
            setattr(cls, name, (LateProperty if kind == "properties" else LateMember)(cls, theme, name))
        if theme.module in EAGER:
            bind(cls, theme)


def load_all(cls: type) -> None:
    """Import every theme: for pages and tools that look at all members of the class."""
    for theme in THEMES:
        bind(cls, theme)
