"""Templates: a repeated call makes the nodes that the method itself makes, and what is no pure graph has none."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Context, Tensor, nn
from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError
from tinygraft.tensor import templates
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

X = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8) / 7 - 4).realize()
Y = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8)[::-1].copy() / 5 - 6).realize()
ROW = Tensor(np.arange(8, dtype=np.float32)).realize()
IMAGE = Tensor(np.arange(128, dtype=np.float32).reshape(2, 4, 4, 4) / 9).realize()
KERNEL = Tensor(np.arange(144, dtype=np.float32).reshape(4, 4, 3, 3) / 9).realize()
INTS = Tensor(np.arange(64, dtype=np.int32).reshape(8, 8) % 11 - 3).realize()
GRID = Tensor(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 4, 4, 2)).realize()
LABELS = Tensor(np.arange(8, dtype=np.int32)).realize()
SQUARE = (X / 9 + Tensor.eye(8) * 3).realize()
POSITIVE = (SQUARE @ SQUARE.T).realize()
QUERY = Tensor(np.arange(64, dtype=np.float32).reshape(1, 2, 4, 8) / 64).realize()

OF_FLOATS = (
    "prod min any all mean var var_mean std std_mean softmax log_softmax softmin logsumexp normalize layernorm argmax "
    "argmin sum max floor ceil round isnan isfinite cov diff norm vector_norm matrix_norm trace triu tril "
    "nan_to_num logit sinc frac relu6 leaky_relu sigmoid logsigmoid softplus softsign swish silu quick_gelu "
    "gelu mish elu celu selu hardsigmoid hardswish hardtanh hardshrink softshrink tanhshrink glu cumsum "
    "cummax cummin logcumsumexp median nanmedian mode amax amin aminmax count_nonzero histc sort argsort "
    "sign sinh cosh asinh atanh erfinv digamma lgamma i0 i0e i1 i1e frexp isinf square rsqrt corrcoef"
)
OF_TWO = (
    "matmul dot __matmul__ atan2 remainder hypot xlogy logaddexp isclose __mod__ __floordiv__ cdist kron l1_loss "
    "mse_loss smooth_l1_loss huber_loss kl_div cosine_similarity pairwise_distance binary_crossentropy_logits "
    "searchsorted isin heaviside outer copysign floor_divide div ldexp mm stack cat tensordot"
)
OF_SQUARE = ("inv", "inverse", "det", "slogdet", "qr", "svd", "svdvals", "lu_factor", "matrix_exp", "pinv")
OF_POSITIVE = ("cholesky", "cholesky_inverse", "eigh", "eigvalsh", "logdet", "matrix_rank")
CALLS = [
    *[(name, X, (), {}) for name in OF_FLOATS.split()],
    *[(name, X, (Y,), {}) for name in OF_TWO.split() if name != "outer"],
    *[(name, X, (X,), {}) for name in ["matmul", "atan2", "isclose", "cdist", "mse_loss"]],
    *[(name, X, (1,), {}) for name in ("sum", "mean", "softmax", "max", "argmax", "std", "var", "cumsum", "cumprod")],
    *[(name, X, (1,), {}) for name in ("sort", "median", "topk", "amax", "logsumexp", "normalize", "norm")],
    *[(name, INTS, (), {}) for name in ("sum", "max", "argmax", "sort", "any", "prod", "mode", "cumsum", "floor")],
    *[(name, IMAGE, (KERNEL,), {"padding": 1}) for name in ("conv2d", "conv_transpose2d")],
    *[("pad", IMAGE, ((1, 1, 1, 1),), {"mode": mode}) for mode in ("constant", "reflect", "replicate", "circular")],
    *[("interpolate", IMAGE, ((8, 8),), {"mode": mode}) for mode in ("linear", "nearest", "area")],
    ("max_pool2d", IMAGE, ((2, 2),), {}), ("avg_pool2d", IMAGE, ((2, 2),), {}), ("pixel_shuffle", IMAGE, (2,), {}),
    ("grid_sample", IMAGE, (GRID,), {}), ("layer_norm", X, ((8,),), {}), ("rms_norm", X, ((8,),), {}),
    ("group_norm", IMAGE, (2,), {}), ("kthvalue", X, (3,), {}),
    ("renorm", X, (2, 0, 1.0), {}),
    ("clamp", X, (-1, 1), {}), ("clamp", X, (-0.0, 1.0), {}), ("clamp", X, (0.0, 1.0), {}), ("repeat", X, (2, 2), {}),
    ("outer", ROW, (ROW,), {}), ("bucketize", X, (ROW,), {}), ("linear", X, (Y, ROW), {}), ("lerp", X, (Y, 0.3), {}),
    ("addcmul", X, (Y, X), {"value": 0.5}), ("where", X > 0, (X, Y), {}), ("topk", X, (3,), {"dim": 1}),
    ("scaled_dot_product_attention", QUERY, (QUERY, QUERY), {"is_causal": True}),
    ("scaled_dot_product_attention", QUERY.transpose(1, 2), (QUERY.transpose(1, 2), QUERY.transpose(1, 2)), {}),
    ("batchnorm", IMAGE, (None, None, IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))), {}),
    ("cross_entropy", X, (LABELS,), {}), ("nll_loss", X, (LABELS,), {}), ("gather", X, (1, INTS.abs() % 8), {}),
    ("masked_fill", X, (Y > 0, 0.0), {}), ("roll", X, (3, 1), {}), ("roll", X, (100,), {}),
    ("cat", X, (Y, X), {"dim": 1}),
    ("stack", ROW, (ROW, LABELS.float()), {"dim": 1}), ("embedding", LABELS.reshape(2, 4), (X,), {}),
    ("index_copy", X, (0, LABELS, Y), {}), ("index_fill", X, (1, LABELS, 0.5), {}), ("polygamma", Y.abs(), (2,), {}),
    ("addmm", X, (X, Y), {}), ("baddbmm", IMAGE[0], (IMAGE[0], IMAGE[1]), {}), ("bmm", IMAGE[0], (IMAGE[1],), {}),
    ("mv", X, (ROW,), {}), ("addmv", ROW, (X, ROW), {}),
    *[(name, SQUARE, (), {}) for name in OF_SQUARE],
    *[(name, POSITIVE, (), {}) for name in OF_POSITIVE],
    *[(name, SQUARE, (X,), {}) for name in ("solve", "cholesky_solve")], ("cholesky", POSITIVE, (True,), {}),
    *[("solve_triangular", SQUARE, (X,), {"upper": upper}) for upper in (True, False)], ("acosh", X.abs() + 1, (), {}),
    ("bilinear", ROW.reshape(1, 8), (ROW.reshape(1, 8), KERNEL.reshape(-1)[:128].reshape(2, 8, 8)), {}),
    ("matrix_power", X, (5,), {}),
    ("local_response_norm", IMAGE, (3,), {}),
    ("sparse_categorical_crossentropy", X, (LABELS,), {}), ("one_hot", LABELS, (8,), {}),
]  # fmt: skip


def _nodes(found: object) -> list[UOp]:
    return [t.uop for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(("name", "tensor", "args", "kwargs"), CALLS, ids=[call[0] for call in CALLS])
def test_a_repeated_call_makes_the_nodes_of_the_method(name, tensor, args, kwargs):
    """A repeated call makes the nodes of the method."""
    templates.clear()
    written = getattr(Tensor, name).__wrapped__
    for flag in (None, True):
        for quiet in (False, True):
            given = [tensor, *args]
            if flag and tensor.dtype.kind == "float":
                given[0] = tensor.detach().clone().requires_grad_()
            for _ in range(4):
                if quiet:
                    with Tensor.no_grad():
                        found, wanted = getattr(Tensor, name)(*given, **kwargs), written(*given, **kwargs)
                else:
                    found, wanted = getattr(Tensor, name)(*given, **kwargs), written(*given, **kwargs)
                assert all(a is b for a, b in zip(_nodes(found), _nodes(wanted), strict=True)), name
                assert type(found) is type(wanted)


def _templates() -> list[templates.Template]:
    return [found for found in templates._known.values() if isinstance(found, templates.Template)]


def test_a_class_method_and_calls_with_numbers_that_vary():
    """Einsum has a template, and keys that come once do not end it."""
    templates.clear()
    for _ in range(3):
        found = Tensor.einsum("ij,kj->ik", X, Y)
    np.testing.assert_allclose(found.numpy(), np.einsum("ij,kj->ik", X.numpy(), Y.numpy()), rtol=1e-5)
    before = _templates()
    for number in range(1024):
        X.clamp(-number - 2, number + 0.25)
    assert before and all(one in _templates() for one in before)


def test_a_template_is_made_of_the_second_call_and_runs_no_python_of_the_method(monkeypatch):
    """A template is made of the second call and runs no python of the method."""
    templates.clear()
    (X + 1).softmax()
    assert _templates() == []
    (X + 2).softmax()
    assert len(_templates()) == 1
    monkeypatch.setattr(Tensor, "_op", None)
    monkeypatch.setattr("tinygraft.uop.uop.check_node", None)
    assert Y.softmax().uop.op is Ops.FDIV


def test_a_template_has_no_memory_of_an_operand():
    """A template has no memory of an operand."""
    templates.clear()
    for _ in range(3):
        X.gelu()
    (found,) = _templates()
    assert not any(node.op in (Ops.BUFFER, Ops.PLACEHOLDER) for each in found.constants for node in (each, *each.src))


def test_operands_that_are_one_node_or_read_each_other_are_told_apart():
    """Operands that are one node or read each other are told apart."""
    for _ in range(3):
        one = X.atan2(X)
    for _ in range(3):
        two = X.atan2(Y)
    read = X + 1
    for _ in range(3):
        other = X.cdist(read)
    np.testing.assert_allclose(one.numpy(), np.arctan2(X.numpy(), X.numpy()), rtol=1e-6)
    np.testing.assert_allclose(two.numpy(), np.arctan2(X.numpy(), Y.numpy()), rtol=1e-6)
    assert other.shape == (8, 8)


def test_settings_and_flags_have_their_own_templates():
    """Settings and flags have their own templates."""
    for _ in range(3):
        X.mean()
        INTS.float().mean()
    with Context(DEFAULT_FLOAT="float64"):
        for _ in range(3):
            assert INTS.mean().dtype.name == "double"
    for _ in range(3):
        assert INTS.mean().dtype.name == "float"
    with nn.autocast():
        for _ in range(3):
            assert X.matmul(Y).dtype.name == "bfloat16"
    assert X.matmul(Y).dtype.name == "float"
    leaf = X.clone().requires_grad_()
    for _ in range(3):
        assert leaf.mean().requires_grad and X.mean().requires_grad is None
        with Tensor.no_grad():
            assert leaf.mean().requires_grad is False


def test_a_gradient_goes_through_a_repeated_call():
    """A gradient goes through a repeated call."""
    for _ in range(4):
        x = X.clone().requires_grad_()
        x.softmax().square().sum().backward()
        assert x.grad is not None
        wanted = Tensor(X.numpy(), requires_grad=True)
        (wanted.exp() / wanted.exp().sum(-1, keepdim=True)).square().sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), wanted.grad.numpy(), atol=1e-6)


def test_a_derivative_is_shared_where_it_refers_to_no_tensor():
    """The derivative of an operator is one for the same options, also by a template, and a user's is of its call."""
    templates.clear()
    inverses = [X.inv().uop.arg for _ in range(4)]
    assert inverses[0].is_shared and all(arg is inverses[0] for arg in inverses)
    one, other = (X.solve_triangular(Y, upper=upper).uop.arg for upper in (True, False))
    assert one.is_shared and other.is_shared and one is not other
    for _ in range(4):
        x = SQUARE.clone().requires_grad_()
        (x.inv() * Y).sum().backward()
        assert x.grad is not None
        inverse = np.linalg.inv(x.numpy().astype(np.float64))
        np.testing.assert_allclose(x.grad.numpy(), -(inverse.T @ Y.numpy() @ inverse.T), rtol=1e-3, atol=1e-4)


def test_errors_and_the_line_that_made_a_tensor_stay():
    """Errors and the line that made a tensor stay."""
    for _ in range(4):
        with pytest.raises(ShapeError, match="made at .*test_templates.py"):
            X.matmul(Tensor.ones(3, 3))
    lines = {t.made_at for t in (X.softmax(), X.softmax())}
    for _ in range(3):
        made = X.softmax()
        assert made.made_at not in lines and made.made_at[0].endswith("test_templates.py")


def test_labels_and_indices_are_checked_in_every_call():
    """Labels and indices are checked in every call."""
    for _ in range(4):
        X.cross_entropy(LABELS)
        X.gather(1, INTS.abs() % 8)
    for _ in range(3):
        with pytest.raises(IndexOutOfRange):
            X.cross_entropy(Tensor([0, 1, 2, 3, 4, 5, 6, 8]))
        with pytest.raises(IndexOutOfRange):
            X.gather(1, Tensor(np.full((8, 2), 9)))


def test_a_name_for_messages_is_given_again():
    """A name for messages is given again."""
    for _ in range(4):
        found = X.bucketize(ROW)
        with pytest.raises(DTypeError, match="bucketize made it"):
            found.sum().backward()


def test_no_more_keys_than_are_bounded():
    """No more keys than are bounded."""
    templates.clear()
    for number in range(530):
        X.clamp(-number - 2, number + 0.5)
    assert len(templates._known) <= 512 and 0 < len(templates._seen) <= 512
