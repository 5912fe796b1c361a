"""Linear algebra of complex matrices: what their methods do otherwise than those of real ones.

All of it is computed as for real numbers, with adjoints in place of transposed matrices; here are the few steps that
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tinygraft.tensor.ops.linalg.decompositions import identity_of
from tinygraft.tensor.ops.linalg.householder import reflectors_applied
from tinygraft.tensor.ops.linalg.triangles import conjugate_transpose
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import UOp


class ComplexLinalg(Tensor):
    """Methods on complex matrices."""

    __slots__ = ()

    def _undefined(self) -> NoReturn:
        """Raise DTypeError, which names the method that complex numbers do not have."""
        raise NotImplementedError

    def _with_gradient(self, name: str, value: Any, inputs: Sequence[Any], rule: Callable[..., Any]) -> Any:
        """As for real numbers, with both parts of each tensor in one, so that there is one node that has the rule."""
        whole = value.is_complex()

        def derive(node: UOp, gradient: Tensor, wanted: list[bool]) -> Sequence[Tensor | None]:
            """Call `rule` with complex tensors, and return its gradients as real tensors of pairs."""
            given = [gradient, gradient._wrap(node)]
            sources = [gradient._wrap(source).view_as_complex() for source in node.src[1:]]
            found = rule(*([t.view_as_complex() for t in given] if whole else given), *sources)
            several = found if isinstance(found, tuple) else (found,)
            return [None if g is None else g.view_as_real() for g in several]

        flat = value.view_as_real() if whole else value
        found: Tensor = with_derivative(name, flat, [t.view_as_real() for t in inputs], derive)
        return found.view_as_complex() if whole else found

    def _height(self) -> Any:
        """Return the magnitudes of both parts added up, as LAPACK measures pivots."""
        return self.real.abs() + self.imag.abs()

    def _reflected_to(self, m: int, n: int) -> tuple[Any, Any]:
        """Q and R by reflections that leave a real diagonal, as LAPACK has it."""
        found = self.geqrf()
        return reflectors_applied(found.a, found.tau, identity_of(self, m, m), transpose=False), found.a

    def logdet(self) -> Any:
        """The logarithm of the determinant, the principal value: complex, of the shape of the batch."""
        found = self.slogdet()
        return found.sign.log() + found.logabsdet

    def _mirrored_from(self, upper: bool) -> Any:
        """The Hermitian matrix of which one triangle is read. A gradient is that of the whole matrix."""
        half = conjugate_transpose(self) if upper else self
        whole = half.tril() + conjugate_transpose(half.tril(-1))
        value = (whole + conjugate_transpose(whole)) * 0.5  # with a real diagonal
        return self._with_gradient("mirrored", value, [self], lambda gradient, *_: gradient)

    def _aligned(self, other: Any) -> tuple[Any, Any]:
        """Return (magnitudes of these inner products, `other` with its columns multiplied by the opposite phases).

        Both parts are divided by the larger one before they are squared, so that nothing overflows.
        """
        a, b = self.real, self.imag
        large = a.abs().maximum(b.abs())
        scale = (large == 0).where(1.0, large)
        c, d = (large == 0).where(1.0, a / scale), b / scale  # the phase, but for a factor from 1 to 1.5
        length = (c * c + d * d).sqrt()
        return large * length, other * (c / length).complex(-(d / length))

    def _apart(self, s: Any, phases: bool) -> Any:
        """As of real numbers, but with `phases` the diagonal is the imaginary part over s squared."""
        n = size_math.as_int(s.shape[-1], "svd")
        eye = identity_of(s, n, n)
        off = super()._apart(s, phases) * (1.0 - eye)
        if not phases:
            return off
        turning = self.imag * eye / (s * s).unsqueeze(-2)
        return off + turning._const(0.0).complex(turning)

    def newton_schulz(self, steps: int, params: Sequence[float], eps: float = 1e-7) -> NoReturn:
        """Not defined for complex numbers: raises DTypeError."""
        self._undefined()
