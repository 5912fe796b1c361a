"""A call of every method of Tensor, as text, for the tests of degenerate inputs.

t is the tensor, o another one of its shape; k (integers, none twice along an axis), p (all places of the flat tensor)
and b (bools) have its shape too; i is an index of one axis, n the first size and w a matrix of n columns.
"""

ONE = """
abs acos acosh angle asin asinh atan atanh bfloat16 bool cbrt ceil celu conj contiguous contiguous_backward clone cos
cosh deg2rad detach digamma double elu entr erf erfc erfcx erfinv exp exp2 expm1 float floor frac frexp half
hardsigmoid hardswish hardtanh i0 i0e i1 i1e int isfinite isinf isnan isneginf isposinf isreal leaky_relu lgamma log
log10 log1p log2 log_ndtr logical_not logit logsigmoid long mish nan_to_num ndtr ndtri neg positive quick_gelu rad2deg
reciprocal relu relu6 round rsqrt selu sgn short sigmoid sign signbit silu sin sinc sinh softplus softsign sqrt square
swish tan tanh trunc byte char hardshrink softshrink tanhshrink
flatten flip squeeze ravel argwhere nonzero unique unique_consecutive msort fliplr flipud t diag diagflat trace tril
triu corrcoef cov cumulative_trapezoid trapezoid trapz
matrix_exp qr linalg_qr pinverse pinv det inverse inv inv_ex slogdet lu lu_factor lu_factor_ex cond matrix_rank vander
linalg_vander matrix_norm linalg_norm vector_norm norm pdist svdvals
fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn hfftn ihfftn fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftshift
ifftshift histc
is_floating_point numel nbytes dim element_size tolist gelu zeros_like ones_like item numpy data realize hash
"""
REDUCE = """
sum prod mean max min all any amax amin argmax argmin count_nonzero logsumexp median nanmean nanmedian nansum nanmax
nanmin nanprod nanstd nanvar std var std_mean var_mean mode
"""
AXIS = """
cumsum cumprod cummax cummin logcumsumexp softmax log_softmax softmin argsort sort unbind layernorm unsqueeze squeeze
aminmax tensor_split:2 chunk:2 split:2 kthvalue:1 quantile:0.25 nanquantile:0.25 topk:1 diff:1 normalize:2.0
repeat_interleave:2 roll:1
"""
TWO = """
add atan2 copysign div eq equal float_power floor_divide fmax fmin fmod ge gt heaviside hypot isclose allclose ldexp le
logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum mod mul ne nextafter pow remainder rsub sub
true_divide xlog1py xlogy zeta dot matmul inner outer ger kron mm mv bmm vdot vecdot cross dist cdist expand_as
reshape_as view_as isin bucketize searchsorted solve broadcast_tensors image_dot
atleast_1d atleast_2d atleast_3d block_diag cartesian_prod cat column_stack dstack hstack vstack stack meshgrid
binary_crossentropy binary_crossentropy_logits usum uprod cross_entropy binary_cross_entropy
binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss soft_margin_loss
hinge_embedding_loss pairwise_distance cosine_similarity multilabel_soft_margin_loss masked_logaddexp triangular_solve
"""
INTEGER = """
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift lshift rshift gcd lcm
"""
MORE = """
t.T; t.mT; t.H; t.mH; t.real; t.imag; t.complex(o).imag; t.polar(o).abs(); t.complex(o).view_as_real()
t.is_complex(); t.view_as_complex(); t.adjoint(); t.conj_physical(); t.resolve_conj(); t.resolve_neg()
t.cfloat(); t.cdouble(); t.shape; t.ndim; k.bitwise_not(); k.unique(); k.sum(); k.prod()
k.max(); k.cumsum(0); k.mean(); k.sort(0); b.sum(); b.any(); b.all(); b.cumsum(0); b.logical_not(); b.nonzero()
k.flatten().bincount()
t.addcdiv(o, o + 2); t.addcmul(o, o); t.lerp(o, 0.25); t.clamp(0.25, 0.5); t.clip(0.25, 0.5); t.clamp_min(0.5)
t.clamp_max(0.5); b.where(t, o); t.masked_fill(b, 2.0); t.masked_select(b); t.masked_scatter(b, o)
t.gather(0, k); t.gather(-1, k); t.scatter(0, k, o); t.scatter(-1, k, o); t.scatter_add(0, k, o)
t.scatter_reduce(0, k, o, 'amax'); t.scatter_reduce(0, k, o, 'mean'); t.take_along_dim(k, 0); t.take(p); t.put(p, o)
t.index_select(0, i); t.index_select(-1, i); t.index_add(0, i, t.index_select(0, i)); t.index_fill(0, i, 2.0)
t.index_copy(0, i, o.index_select(0, i)); t.index_reduce(0, i, t.index_select(0, i), 'amax')
t.index_put((i,), o[i]); t[i]; t[...]; t[None]; t[::2]; t[..., None]; t[..., i]; t[b]; t[0]; t[-1:]
t.select(0, 0); t.select_scatter(o.select(0, 0), 0, 0); t.slice_scatter(o, 0); t.diagonal_scatter(o.diagonal())
t.diagonal(); t.diagonal(1, -1, -2); t.diag_embed(); t.narrow(0, 0, 1); t.narrow(-1, 0, 0); t.unfold(0, 1, 1)
t.as_strided((2, 2), (0, 1)); t.as_strided_scatter(o.flatten()[:1], (1,), (1,)); t.roll(1); t.rot90()
t.repeat_interleave(2); t.tile(2); t.repeat((2,) + (1,) * (t.ndim - 1)); t.movedim(0, -1)
t.swapaxes(0, -1); t.transpose(0, -1); t.permute(tuple(range(t.ndim))[::-1]); t.unflatten(0, (1, -1)); t.reshape(-1)
t.view(t.shape); t.broadcast_to((2,) + tuple(t.shape)); t.expand((2,) + tuple(t.shape)); t.sum_to_size(t.shape)
t.dsplit(1); t.hsplit(1); t.vsplit(1); t.mvlgamma(1); t.polygamma(1); t.renorm(2, 0, 0.5); t.dropout(0.0)
t.matrix_power(2); (t @ t.mT).eigvalsh(); (t @ t.mT).eigh()[0]; t.cholesky_ex()[1]; o.cholesky_solve(t)
(t @ t.mT + 4).logdet(); (t @ t.mT).svd()[1]; t.cholesky_inverse(); (t @ t.mT).cholesky()
t.chain_matmul([t, o]); t.multi_dot([t, o]); t.einsum('...->...', t); t.lstsq(o)[0]; t.linear(o.mT)
t.addmm(t, o); t.addmv(t, t[0])
t.addr(t[0], o[0]); t.addbmm(t[None], o[None]); t[None].baddbmm(t[None], o[None]); t.solve_ex(o)
t.solve_triangular(o, upper=True); t.tensorinv(1); t.tensorsolve(t[0]); t.tensordot(o); t.combinations()
t.histogram(3); t.nonzero_static(2); k.flatten().one_hot(9); t.lu_factor()[0].lu_solve(t.lu_factor()[1], o)
t.lu_unpack(t.lu_factor()[1]); t.pad((1, 1)); t.pad((1, 1), mode='replicate'); t.pad((1, 1), mode='reflect')
t[None, None].avg_pool2d((1, 1)); t[None, None].max_pool2d((1, 1))
t[None, None].max_unpool2d(k[None, None] * 0, (1, 1))
t[None, None].conv2d(t[None, None]); t[None, None].conv_transpose2d(t[None, None])
t[None, None].image_conv2d(t[None, None]); t.scaled_dot_product_attention(o, o); t.nll_loss(i)
t.sparse_categorical_crossentropy(k.sum(-1) * 0); k.unravel_index((2, 9)); t.pad_to(t.shape); t.shrink([None] * t.ndim)
t.shrink_to(tuple(min(n, 1) for n in t.shape)); t.cast('float64'); t.bitcast('int32'); t.const_like(2); t.full_like(2)
t.ufix(2); t.rearrange('... a -> a ...'); t.interpolate((2,)); t.sequential([lambda x: x + 1])
t.newton_schulz(1, (2.0, -1.5, 0.5)); t.batchnorm(None, None, t.sum(-1) * 0, t.sum(-1) * 0 + 1, 0)
t.alu(Ops.ADD, o); (t * 9).int().keccak(); t.uop.op
t.margin_ranking_loss(o, b * 2 - 1); t.triplet_margin_loss(o, t + 1); t.triplet_margin_with_distance_loss(o, t + 1)
t.gaussian_nll_loss(o, o); t.cosine_embedding_loss(o, k.sum(-1) * 0 + 1); t.multi_margin_loss(k.sum(-1) * 0)
t.multilabel_margin_loss(k * 0 - 1); t.linear_cross_entropy(o, k.sum(-1) * 0)
t[None].log_softmax(-1).ctc_loss(k[:, :1] * 0 + 1, (1,) * t.shape[0], (1,) * t.shape[0])
t[None].avg_pool1d(1); t[None].lp_pool1d(2.0, 1); t[None].max_pool1d(1); t[None].max_unpool1d(k[None] * 0, 1)
t[None, None].lp_pool2d(2.0, 1); t[None, None, None].avg_pool3d(1); t[None, None, None].lp_pool3d(2.0, 1)
t[None, None, None].max_pool3d(1); t[None, None, None].max_unpool3d(k[None, None, None] * 0, 1)
t[None].adaptive_avg_pool1d(2); t[None, None].adaptive_avg_pool2d(2); t[None, None, None].adaptive_avg_pool3d(2)
t[None].adaptive_max_pool1d(2); t[None, None].adaptive_max_pool2d(2); t[None, None, None].adaptive_max_pool3d(2)
t[None].conv1d(t[None]); t[None].conv_transpose1d(t[None]); t[None, None, None].conv3d(t[None, None, None])
t[None, None, None].conv_transpose3d(t[None, None, None]); t.layer_norm(t.shape[-1:]); t.rms_norm(t.shape[-1:])
t.group_norm(1); t[None].instance_norm(); t.batch_norm(None, None, training=True); t[None].local_response_norm(1)
t.prelu(o.flatten()[:1]); t.rrelu(0.25, 0.5, False); t.threshold(0.5, 0.0); t.glu(-1); t.alpha_dropout(0.5, False)
t.feature_alpha_dropout(0.5, False); t.dropout1d(0.5, False); t.dropout2d(0.5, False); t.dropout3d(0.5, False)
t[None].pixel_shuffle(1); t[None].pixel_unshuffle(1); t[None, None].channel_shuffle(1); t.fold((1, 3), 1)
t[None, None].functional_unfold(1); t[None, None].grid_sample(o[..., None].expand(tuple(o.shape) + (2,))[None])
t[:2][None].affine_grid((1, 1, 2, 2)); k.embedding(t); k.embedding_bag(t); t.bilinear(o, t[None])
t.householder_product(o[..., 0]); t.geqrf(); t.orgqr(o[..., 0]); t.ormqr(o[..., 0], t); t.split_with_sizes((1, 2))
t.flatten().stft(2).abs(); t.complex(o).istft(2); t[None, None].upsample_nearest(scale_factor=2)
t[None, None].upsample_bilinear(scale_factor=2); t.masked_amax(0, mask=b); t.masked_amin(0, mask=b)
t.masked_argmax(0, mask=b); t.masked_argmin(0, mask=b); t.masked_cumprod(0, mask=b); t.masked_cumsum(0, mask=b)
t.masked_log_softmax(0, mask=b); t.masked_logsumexp(0, mask=b); t.masked_mean(0, mask=b); t.masked_median(0, mask=b)
t.masked_norm(2.0, 0, mask=b); t.masked_normalize(2.0, 0, mask=b); t.masked_prod(0, mask=b)
t.masked_softmax(0, mask=b); t.masked_softmin(0, mask=b); t.masked_std(0, mask=b); t.masked_sum(0, mask=b)
t.masked_var(0, mask=b)
"""


def calls() -> list[str]:
    """All of them, each once."""
    found = [f"t.{name}()" for name in ONE.split()]
    found += [f"t.{name}({a})" for name in REDUCE.split() for a in ("", "0", "-1")]
    for row in AXIS.split():
        name, _, first = row.partition(":")
        found += [f"t.{name}({', '.join(a for a in (first, axis) if a)})" for axis in ("0", "-1")]
    found += [f"t.{name}(o)" for name in TWO.split()] + [f"k.{name}(k)" for name in INTEGER.split()]
    return list(dict.fromkeys(found + [text for part in MORE.replace("\n", ";").split(";") if (text := part.strip())]))
