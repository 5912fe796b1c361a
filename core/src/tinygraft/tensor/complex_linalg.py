"""Linear algebra of complex matrices: what their methods do otherwise than those of real ones.

Systems, inverses, determinants, LU, Cholesky and reflections are computed as for real numbers, with adjoints in place
of transposed matrices; here are the few steps in which they differ. Singular values and what is made of them are those
of the real matrix [[A, -B], [B, A]] for A + iB, which has each of them twice: sums and products of such matrices are
again such matrices, and so are adjoints and inverses. Vectors of equal values would not come out in pairs, so eigh and
svd are not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tinygraft.tensor import lengths
from tinygraft.tensor.custom import with_derivative
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import UOp


class ComplexLinalg(Tensor):
    """Methods on complex matrices."""

    __slots__ = ()

    def _undefined(self) -> NoReturn:
        raise NotImplementedError

    def _with_gradient(self, name: str, value: Any, inputs: Sequence[Any], rule: Callable[..., Any]) -> Any:
        """As for real numbers, with both parts of each tensor in one, so that there is one node that has the rule."""
        whole = value.is_complex()

        def derive(node: UOp, gradient: Tensor, wanted: list[bool]) -> Sequence[Tensor | None]:
            given = [gradient, gradient._wrap(node)]
            sources = [gradient._wrap(source).view_as_complex() for source in node.src[1:]]
            found = rule(*([t.view_as_complex() for t in given] if whole else given), *sources)
            several = found if isinstance(found, tuple) else (found,)
            return [None if g is None else g.view_as_real() for g in several]

        flat = value.view_as_real() if whole else value
        found: Tensor = with_derivative(name, flat, [t.view_as_real() for t in inputs], derive)
        return found.view_as_complex() if whole else found

    def _height(self) -> Any:
        """The magnitudes of both parts added up, as LAPACK has it."""
        return self.real.abs() + self.imag.abs()

    def _reflected_to(self, m: int, n: int) -> tuple[Any, Any]:
        """Q and R by reflections that leave a real diagonal, as LAPACK has it."""
        found = self.geqrf()
        return found.a._applied(found.tau, self._identity_of(m, m), transpose=False), found.a

    def logdet(self) -> Any:
        """The logarithm of the determinant, the principal value."""
        found = self.slogdet()
        return found.sign.log() + found.logabsdet

    # By the real matrix that stands for this one

    def _as_real_matrix(self) -> Tensor:
        """[[A, -B], [B, A]] for A + iB."""
        a, b = self.real, self.imag
        return a.cat(-b, dim=-1).cat(b.cat(a, dim=-1), dim=-2)

    def _mirrored_from(self, upper: bool) -> Any:
        """The Hermitian matrix of which one triangle is read. A gradient is that of the whole matrix."""
        half = self._adjoint() if upper else self
        whole = half.tril() + half.tril(-1)._adjoint()
        value = (whole + whole._adjoint()) * 0.5  # with a real diagonal
        return self._with_gradient("mirrored", value, [self], lambda gradient, *_: gradient)

    def svdvals(self) -> Any:
        """The singular values, from the greatest on."""
        self._matrix("svdvals")
        return self._as_real_matrix().svdvals()[..., ::2]

    def eigvalsh(self, UPLO: str = "L") -> Any:
        """The eigenvalues, ascending, of Hermitian matrices, of which one triangle is read."""
        self._square("eigvalsh")
        return self._mirrored_from(UPLO.upper() == "U")._as_real_matrix().eigvalsh()[..., ::2]

    def pinv(self, rtol: Any = None, hermitian: bool = False) -> Any:
        """The Moore-Penrose inverse, as of real matrices."""
        self._matrix("pinv")
        m, n = lengths.as_ints(self.shape[-2:], "pinv")
        matrix = self._mirrored_from(False) if hermitian else self
        found = matrix._as_real_matrix().pinv(self._rounding(m, n) if rtol is None else rtol, hermitian)
        real, imaginary = found[..., :n, :m], found[..., n:, :m]
        return real.complex(imaginary)

    def newton_schulz(self, steps: int, params: Sequence[float], eps: float = 1e-7) -> NoReturn:
        """Not defined."""
        self._undefined()
