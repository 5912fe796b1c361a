"""A sweep over single operators beside PyTorch, to find where a script would fall off a cliff.

    python -m benchmarks.operators                         all of them; at the end once more, those furthest behind last
    python -m benchmarks.operators --only sort,conv2d      those whose expression has one of these words
    python -m benchmarks.operators --small                 with a few elements each: the latency of an operator
    python -m benchmarks.operators --replay                ours under TinyJit
    python -m benchmarks.operators --backward              the gradients of its sum, with the forward

Each expression of LINES is evaluated by both libraries, in this process and in turns: the names in it are their own
tensors of the same numbers, and f finds a function by its name. A time is the least of many calls by the clock, in
microseconds; results are compared once. Items with bars are in items.py: this table has no bars, but more operators.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from tinygraft import Tensor, TinyJit

PAUSE = 0.012  # seconds; for that long the threads of PyTorch spin after a call
SECONDS, CALLS = 0.1, 300  # of one side in one round, and the most calls in it
ROUNDS = 3
LEAVES = "vwumnspx"  # names of floats, by which gradients are taken

# v, w vectors, u one within (0, 1), m, n matrices, s a square, p a positive definite one, x images of 64 channels,
# i, j indices below 64, h a boolean per row of m. K(out, in, ...) are weights.
LINES = """
v + w | v * w + 1.0 | v / w | v ** 2 | v ** 3 | u ** 2.5 | u ** w | v.abs() | v.sign() | v.relu() | v.exp()
v.exp2() | v.expm1() | u.log() | u.log2() | u.log10() | u.log1p() | u.sqrt() | u.rsqrt() | v.sin() | v.cos()
v.tan() | u.asin() | u.acos() | v.atan() | v.sinh() | v.cosh() | v.tanh() | v.sigmoid() | u.erfinv() | v.erf()
v.erfc() | u.lgamma() | u.digamma() | u.asinh() | u.atanh() | f.silu(v) | f.gelu(v) | f.softplus(v) | f.elu(v)
f.leaky_relu(v) | f.hardswish(v) | f.mish(v) | f.selu(v) | f.logsigmoid(v) | v.floor() | v.round() | v.frac()
v.clamp(-1.0, 1.0) | v.maximum(w) | v.fmod(w) | v.remainder(w) | v.atan2(w) | v.hypot(w) | v.copysign(w) | v > w
(v > 0).logical_and(w > 0) | v.isnan() | v.nan_to_num() | (v > 0).where(v, w) | v.lerp(w, 0.3)
v.masked_fill(v > 0, 0.0) | v.addcmul(v, w) | v.floor_divide(w) | v.logaddexp(w) | v.xlogy(u) | v.sinc() | v.i0()
v.sum() | v.mean() | v.max() | v.argmax() | v.std() | v.prod() | v.norm() | v.norm(1) | v.logsumexp(0)
(v > 9).any() | v.median() | v.count_nonzero() | v.var() | v.cumsum(0) | v.cumprod(0) | v.cummax(0)
v.logcumsumexp(0) | v.diff() | v.flip(0) | v.roll(1000) | v.sort() | v.argsort() | v.topk(50) | v.kthvalue(1000)
v.histc(100) | v[:1000000].quantile(0.3) | v.dot(w) | v.unique() | v.nonzero() | v[v > 0] | v.int() | v.half()
v.double() | v.bfloat16() | v.half().float() | m.sum(0) | m.sum(1) | m.mean(0) | m.max(0) | m.max(1) | m.argmax(0)
m.argmax(1) | m.std(0) | m.std(1) | m.norm(dim=0) | m.prod(1) | m.logsumexp(1) | m.amin((0, 1)) | m.softmax(0)
m.softmax(1) | m.log_softmax(1) | f.layer_norm(m, m.shape[1:]) | f.rms_norm(m, m.shape[1:]) | f.normalize(m)
m.cumsum(0) | m.cumsum(1) | m.cumprod(1) | m.cummax(1) | m.logcumsumexp(1) | m.sort(0) | m.sort(1) | m.argsort(1)
m.topk(5) | m.topk(5, 0) | m.kthvalue(5) | m.median(1) | m.mode(1) | m.quantile(0.3, 1) | m.flip(0) | m.flip(1)
m.roll(3, 1) | m.t().contiguous() | m.tril() | m.diagonal().clone() | m[::2, ::3].contiguous() | m.repeat(2, 2)
m.repeat_interleave(2, 1) | m.trace() | m[i] | m[:, i] | m.index_select(0, i) | m.index_select(1, i)
m.gather(1, i.expand(m.shape[0], 64)) | m.gather(0, j) | m[h] | m[i, i] | m[m > 0] | m.take_along_dim(j, 1)
m.scatter_add(0, j, n) | m.scatter_add(1, j, n) | m.index_add(0, i, n[:64]) | m.scatter(1, j, n)
m.index_copy(0, i, n[:64]) | m.index_fill(0, i, 1.0) | m[:64].index_put((i, i), v[:64]) | m @ n | m.t() @ n
m @ n.t() | m @ v[:m.shape[1]] | v[:m.shape[0]] @ m | s @ s | s.double() @ s.double() | m.half() @ n.half()
m.bfloat16() @ n.bfloat16() | m[:16] @ n | m @ n[:, :16] | m.reshape(-1, 8, 8) @ n.reshape(-1, 8, 8)
f.einsum('ij,ij->i', m, n) | f.einsum('bij,bkj->bik', m.reshape(-1, 8, 8), n.reshape(-1, 8, 8))
f.kron(s[:32, :32], s[:32, :32]) | f.outer(v[:m.shape[0]], w[:m.shape[1]]) | f.cdist(m, n)
f.cosine_similarity(m, n) | f.pairwise_distance(m, n) | f.cov(m) | f.corrcoef(m)
f.cross(v[:63].reshape(-1, 3), w[:63].reshape(-1, 3)) | s.matrix_power(5) | f.inv(s) | f.det(s) | f.slogdet(s)
f.cholesky(p) | f.qr(s) | f.svdvals(s) | f.svd(s) | f.eigh(p) | f.eigvalsh(p) | f.solve(s, s) | f.lstsq(s, s)[0]
f.matrix_exp(s) | f.pinv(s) | f.lu_factor(s)[0] | f.matrix_rank(s) | f.solve_triangular(s, s, upper=True)
f.cholesky_solve(s, p) | f.cholesky_inverse(p) | f.inv(s[:64, :64]) | f.det(s[:64, :64]) | f.cholesky(p[:64, :64])
f.qr(s[:64, :64]) | f.svd(s[:64, :64]) | f.eigh(p[:64, :64]) | f.solve(s[:64, :64], s[:64, :64])
f.solve_triangular(s[:64, :64], s[:64, :64], upper=True) | f.inv(s.reshape(-1, 8, 8)) | f.det(s.reshape(-1, 4, 4))
f.cholesky(p[:8, :8].expand(500, 8, 8)) | f.svd(m[:, :16]) | f.qr(m[:, :16]) | f.lstsq(m[:, :16], n[:, :4])[0]
f.rfft(m) | f.fft(m) | f.fft2(m) | f.rfft(v[:65536]) | f.rfft(v[:1000003]) | f.irfft(f.rfft(m)) | f.rfft(m, dim=0)
f.conv2d(x, K(64, 64, 3, 3), padding=1) | f.conv2d(x, K(64, 64, 1, 1))
f.conv2d(x, K(128, 64, 3, 3), stride=2, padding=1) | f.conv2d(x, K(64, 64, 5, 5), padding=2)
f.conv2d(x, K(64, 64, 7, 7), padding=3) | f.conv2d(x, K(64, 64, 3, 3), padding=2, dilation=2)
f.conv2d(x, K(64, 1, 3, 3), padding=1, groups=64) | f.conv2d(x, K(64, 1, 3, 3), padding=1, stride=2, groups=64)
f.conv2d(x, K(64, 1, 5, 5), padding=2, groups=64) | f.conv2d(x, K(64, 1, 7, 7), padding=3, groups=64)
f.conv2d(x, K(64, 16, 3, 3), padding=1, groups=4) | f.conv2d(x, K(64, 4, 3, 3), padding=1, groups=16)
f.conv1d(x.reshape(8, 64, -1), K(64, 64, 3), padding=1)
f.conv1d(x.reshape(8, 64, -1), K(64, 1, 9), padding=4, groups=64)
f.conv2d(x, K(64, 1, 3, 3), K(64), padding=1, groups=64).relu()
f.conv2d(x, K(64, 64, 3, 3), K(64), padding=1).relu()
f.conv3d(x.reshape(-1, 8, 8, *x.shape[2:]), K(16, 8, 3, 3, 3), padding=1)
f.conv_transpose2d(x, K(64, 64, 3, 3), stride=2) | f.conv_transpose2d(x, K(64, 64, 4, 4), stride=2, padding=1)
f.max_pool2d(x, 2) | f.max_pool2d(x, 3, 2) | f.avg_pool2d(x, 2) | f.avg_pool2d(x, 3, 1)
f.adaptive_avg_pool2d(x, 7) | f.group_norm(x, 8) | f.instance_norm(x) | f.batch_norm(x, K(64), K(64) ** 2 + 1)
x.mean((2, 3)) | x.sum((0, 2, 3)) | f.interpolate(x, scale_factor=2)
f.interpolate(x, scale_factor=2, mode='bilinear') | f.interpolate(x[:2], scale_factor=2, mode='bicubic')
f.pad(x, (1, 1, 1, 1)) | f.pad(x, (1, 1, 1, 1), mode='reflect') | f.pixel_shuffle(x, 2) | f.unfold(x, 3)
x.permute(0, 2, 3, 1).contiguous()
f.cat([x, x], dim=1) | f.stack([v, w]) | f.grid_sample(x, K(len(x), *x.shape[2:], 2))
f.local_response_norm(x, 5) | f.embedding(j[:, :32] , m) | f.cross_entropy(m, j[:, 0]) | f.mse_loss(v, w)
f.binary_cross_entropy_with_logits(v, u) | f.smooth_l1_loss(v, w) | f.kl_div(m, n.softmax(1))
f.one_hot(j[:, :16], 64) | f.nll_loss(m, j[:, 0])
f.scaled_dot_product_attention(*x[:, :48].reshape(3, 2, -1, 64)) | f.linear(m, n, v[:m.shape[0]])
f.bilinear(m[:, :16], n[:, :16], K(8, 16, 16)) | f.glu(m) | f.dropout(v, 0.5)
f.searchsorted(v[:1000].sort()[0], w) | f.bucketize(w, v[:100].sort()[0])
f.meshgrid(v[:m.shape[0]], w[:m.shape[1]])[0].clone() | f.tensordot(m, n, 1) | f.addmm(m, m, n)
f.baddbmm(m.reshape(-1, 8, 8), m.reshape(-1, 8, 8), n.reshape(-1, 8, 8)) | f.isin(j, i) | f.renorm(m, 2, 0, 1.0)
j.reshape(-1).bincount() | f.scaled_dot_product_attention(*x[:, :48].reshape(3, 2, -1, 64), is_causal=True)
x.std((2, 3)) | x.flip((2, 3)) | f.max_pool2d(x, 2, 2, return_indices=True)[1] | v.trapezoid()
v.unfold(0, 9, 5).contiguous() | m.float().round(decimals=2) | m.any(1) | (m > 3).any(1) | m.all() | m.aminmax()[0]
m.cumprod(0) | m.sum() | m.norm() | m.count_nonzero(1) | m.nansum(1) | f.hstack([m, n]) | f.stack([m, n], dim=2)
f.where(m > 0, m, 0.0) | f.one_hot(j[:64, 0], 64) | m.unique(return_counts=True)[1] | m.unfold(1, 4, 2).contiguous()
m.diff(dim=1) | f.threshold(m, 0.0, 1.0) | f.dist(v, w)
"""


class Functions:
    """Finds a function by its name in the first place that has it."""

    def __init__(self, *places: Any) -> None:
        self.places = places

    def __getattr__(self, name: str) -> Any:
        for place in self.places:
            if hasattr(place, name):
                return getattr(place, name)
        raise AttributeError(f"no function {name} in {self.places}")


def expressions() -> list[str]:
    """The expressions of LINES."""
    return [one.strip() for line in LINES.strip().splitlines() for one in line.split(" | ")]


def names_of(small: bool, tensor: Callable[[Any], Any], functions: Functions) -> dict[str, Any]:
    """What the names of LINES stand for in the library whose tensors `tensor` makes of arrays."""
    rng = np.random.default_rng(7)
    length, side, square = (64, 64, 64) if small else (4_000_000, 1024, 256)
    shapes: dict[str, tuple[int, ...]] = {"v": (length,), "w": (length,), "m": (side, side), "n": (side, side)}
    shapes["x"] = (1, 64, 8, 8) if small else (8, 64, 56, 56)
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    s = (rng.standard_normal((square, square)) / square**0.5).astype(np.float32)
    found |= {"u": rng.uniform(0.01, 0.99, length).astype(np.float32), "s": s}
    found |= {"p": s @ s.T + np.eye(square, dtype=np.float32), "h": rng.random(side) < 0.5}
    found |= {"i": rng.permutation(64), "j": rng.integers(0, 64, (side, side))}

    @functools.cache
    def weights(*shape: int) -> Any:
        drawn = np.random.default_rng(sum(shape)).standard_normal(shape) / 8
        return tensor(drawn.astype(np.float32))

    return {name: tensor(array) for name, array in found.items()} | {"f": functions, "K": weights}


def flat(result: Any) -> list[Any]:
    """The tensors of a result, which may be a tuple of them."""
    return [one for part in result for one in flat(part)] if isinstance(result, tuple) else [result]


def computed(expression: str, names: dict[str, Any], backward: bool) -> Callable[[], list[Any]]:
    """A function that computes an expression, or with `backward` the gradients of its first result's sum."""
    code = compile(expression, expression, "eval")
    leaves = [names[name] for name in LEAVES if name in code.co_names]

    def forward() -> list[Any]:
        return flat(eval(code, names))

    def gradients() -> list[Any]:
        total = forward()[0].sum()
        if isinstance(total, torch.Tensor):
            return list(torch.autograd.grad(total, leaves, allow_unused=True))
        return list(total.gradient(*leaves))

    if backward:
        for leaf in leaves:
            leaf.requires_grad_(True)
    return gradients if backward else forward


def least(run: Callable[[], Any]) -> float:
    """The least time of a call, in microseconds."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    for _ in range(CALLS):
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            break
    return best * 1e6


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """What the results differ in, or nothing. Draws of random numbers differ, and so do factors in their signs."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if other is None:
            continue
        a, b = one.numpy(), (other.float() if str(other.dtype) == "torch.bfloat16" else other).detach().numpy()
        if a.shape != b.shape:
            return f"shape {a.shape}, not {b.shape}"
        close = 2e-3 * max(1.0, float(np.abs(b).max(initial=0))) if a.dtype.kind in "fc" else 0
        if not np.allclose(a, b, rtol=0, atol=close, equal_nan=True):
            return "values"
    return ""


def measured(expression: str, ours: dict[str, Any], theirs: dict[str, Any], args: argparse.Namespace) -> Row:
    """The least times of both, and what their results differ in."""
    lazy, other = (computed(expression, names, args.backward) for names in (ours, theirs))
    note = difference(lazy(), other())

    def eager() -> Any:
        first, *more = lazy()
        return first.realize(*more)

    run = TinyJit(lambda: [one.realize() for one in lazy()]) if args.replay else eager
    for _ in range(3):
        run()
    mine, its = [], []
    for _ in range(ROUNDS):
        mine.append(least(run))
        time.sleep(PAUSE)
        its.append(least(other))
        time.sleep(PAUSE)
    return Row(min(mine) / min(its), min(mine), min(its), expression, note)


class Row(NamedTuple):
    """The times of one expression."""

    ratio: float
    ours: float
    theirs: float
    expression: str
    note: str

    def __str__(self) -> str:
        line = f"{self.ratio:7.2f} {self.ours:10.1f} {self.theirs:10.1f}  {self.expression}"
        return f"{line}   ({self.note}: they differ)" if self.note else line


def main() -> None:
    """Measure what the options choose: a line for each as it is done, then all lines, those furthest behind last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="words, of which an expression has one")
    parser.add_argument("--small", action="store_true", help="64 elements, matrices of 64x64")
    parser.add_argument("--replay", action="store_true", help="ours under TinyJit")
    parser.add_argument("--backward", action="store_true", help="the gradients of what is computed")
    args = parser.parse_args()
    places = torch.nn.functional, torch.linalg, torch, torch.fft
    ours = names_of(args.small, lambda array: Tensor(array).realize(), Functions(Tensor))
    theirs = names_of(args.small, torch.from_numpy, Functions(*places))
    words = [word for word in args.only.split(",") if word]
    rows = []
    print("  ratio       ours    PyTorch  microseconds")
    with torch.inference_mode(not args.backward):
        for expression in expressions():
            if words and not any(word in expression for word in words):
                continue
            try:
                rows.append(measured(expression, ours, theirs, args))
                print(rows[-1], flush=True)
            except Exception as error:  # what one library does not have, or has no gradient of, is said and passed over
                reason = (str(error).splitlines() or [""])[0][:150]
                print(f"{'-':>7} {'-':>10} {'-':>10}  {expression}   ({type(error).__name__}: {reason})", flush=True)
    print("\nall, those furthest behind last", *sorted(rows), sep="\n")


if __name__ == "__main__":
    main()
