"""CAST and BITCAST in the C family, with the results that dtype.coerce defines.

Integers wrap, a float becomes an integer by saturation (NaN gives 0), and a float is rounded once. Half types kept as
bits convert to and from float32 only, by helpers of integer arithmetic; rules.narrow writes their other casts in
terms of that.
"""

from __future__ import annotations

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.cstyle_words import DialectWords
from tinygraft.render.text import ElementwiseStep


def cast(w: DialectWords, u: ElementwiseStep, x: str) -> str:
    """Return the text of the conversion of x, scalar or vector.

    Raises GraphError for a half type in bits with another dtype than float32.
    """
    old, new, width = u.operand, u.dtype, u.width
    if new is old or (w.type(old) == w.type(new) and not (w.is_bits(old) or w.is_bits(new))):
        return x if width == 1 or new is old else f"({w.type(new, width)}){x}"
    if width == 1:
        return _scalar(w, x, old, new)
    if old is dtypes.bool and not w.is_bits(new):
        return f"__builtin_convertvector(-{x}, {w.type(new, width)})"
    if new is dtypes.bool and not w.is_bits(old):
        zero = w.splat(w.literal(0, old), old, width)
        return f"__builtin_convertvector({x} != {zero}, {w.type(new, width)})"
    if _is_plain(w, old, new):
        return f"__builtin_convertvector({x}, {w.type(new, width)})"
    source = "-x[k]" if old is dtypes.bool else "x[k]"
    one = _scalar(w, source, old, new)
    one = f"-({one})" if new is dtypes.bool else one
    name = f"{new.name}x{width}_from_{old.name}"
    return f"{w.each_lane(name, (new, width), f'{w.type(old, width)} x', one)}({x})"


def _is_plain(w: DialectWords, old: DType, new: DType) -> bool:
    """Return whether C's own conversion is the one that is meant."""
    return not w.is_bits(old) and not w.is_bits(new) and (old.kind != "float" or new.kind == "float")


def _scalar(w: DialectWords, x: str, old: DType, new: DType) -> str:
    """Return the expression that casts one number `x`. Raises GraphError for half types in bits.

    Those convert to and from float32 only.
    """
    if w.is_bits(old) and new is dtypes.float32:
        return f"{_widen(w, old)}({x})"
    if w.is_bits(new) and old is dtypes.float32:
        return f"{_round(w, new)}({x})"
    if w.is_bits(old) or w.is_bits(new):
        raise GraphError(
            f"kernel {w.kernel}: CAST from {old!r} to {new!r}; rules.narrow lets half types convert to and from "
            "dtypes.float only"
        )
    if new is dtypes.bool:
        return f"({x} != 0)"
    if _is_plain(w, old, new):
        return f"({w.type(new)})({x})"
    return f"{_saturate(w, old, new)}({x})"


def _saturate(w: DialectWords, old: DType, new: DType) -> str:
    """Return the name of the helper from a float to an integer, which is declared on first use."""
    low = 0 if new.kind == "uint" else -(2 ** (new.bits - 1))
    high = 2 ** (new.bits - (new.kind != "uint"))  # the first that is too great; a power of two, so exact in any float
    body = (
        f"return x != x ? 0 : x <= {w.literal(float(low), old)} ? {w.literal(low, new)} : "
        f"x >= {w.literal(float(high), old)} ? {w.literal(high - 1, new)} : ({w.type(new)})x;"
    )
    return w.helper(f"{new.name}_from_{old.name}", w.type(new), f"{w.type(old)} x", body)


def _widen(w: DialectWords, old: DType) -> str:
    """Return the name of the helper from the bits of a half type to float, which is declared on first use."""
    bits, float_ = w.type(dtypes.uint32), w.type(dtypes.float32)
    name, arguments = f"float_from_{old.name}", f"{w.type(old)} h"
    if old in w.dialect.widen:
        return w.helper(name, float_, arguments, w.dialect.widen[old])
    back = bitcast_helper(w, dtypes.uint32, dtypes.float32)
    if old is dtypes.bfloat16:
        return w.helper(name, float_, arguments, f"return {back}(({bits})h << 16);")
    return w.helper(name, float_, arguments, "\n    ".join((
        f"{bits} size = h & 0x7fffu, sign = ({bits})(h & 0x8000u) << 16;",
        f"if (size >= 0x7c00u) return {back}(sign | 0x7f800000u | size << 13);  /* infinity and NaN */",
        f"{float_} x = {back}(size << 13) * {w.literal(2.0**112, dtypes.float32)};  /* exact, subnormal or not */",
        "return sign ? -x : x;",
    )))  # fmt: skip


def _round(w: DialectWords, new: DType) -> str:
    """Return the name of the helper from float to the bits of a half type: to nearest even; NaN stays NaN.

    It is declared on first use.
    """
    name, result, arguments = f"{new.name}_from_float", w.type(new), f"{w.type(dtypes.float32)} x"
    if new in w.dialect.narrow:
        return w.helper(name, result, arguments, w.dialect.narrow[new])
    bits, to_bits = w.type(dtypes.uint32), bitcast_helper(w, dtypes.float32, dtypes.uint32)
    if new is dtypes.bfloat16:
        return w.helper(name, result, arguments, "\n    ".join((
            f"{bits} b = {to_bits}(x);",
            f"return ({result})((x != x ? b | 0x400000u : b + 0x7fffu + (b >> 16 & 1u)) >> 16);",
        )))  # fmt: skip
    back = bitcast_helper(w, dtypes.uint32, dtypes.float32)
    return w.helper(name, result, arguments, "\n    ".join((
        f"{bits} b = {to_bits}(x), sign = b >> 16 & 0x8000u, size = b & 0x7fffffffu;",
        f"if (size > 0x7f800000u) return ({result})(sign | 0x7e00u);",
        f"if (size >= 0x477ff000u) return ({result})(sign | 0x7c00u);  /* 65520 and more */",
        "if (size < 0x38800000u)  /* subnormal: adding 0.5 rounds at the last bit of a half */",
        f"    return ({result})(sign | ({to_bits}({back}(size) + 0.5f) - 0x3f000000u));",
        f"return ({result})(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);",
    )))  # fmt: skip


def bitcast(w: DialectWords, u: ElementwiseStep, x: str) -> str:
    """Return the text of x as another dtype of its width, with the same bits."""
    old, new = u.operand, u.dtype
    if u.width == 1:
        if w.type(old) == w.type(new):
            return x
        if dtypes.bool in (old, new):
            return f"({x} != 0)" if new is dtypes.bool else f"({w.type(new)}){x}"
        return f"{bitcast_helper(w, old, new)}({x})"
    if dtypes.bool in (old, new):
        return cast(w, u, x)
    return f"({w.type(new, u.width)}){x}"


def bitcast_helper(w: DialectWords, old: DType, new: DType) -> str:
    """Return the name of the helper that reads the bits of one scalar type as another; it is declared on first use."""
    body = f"union {{ {w.type(old)} given; {w.type(new)} wanted; }} bits = {{x}};\n    return bits.wanted;"
    return w.helper(f"bits_{new.name}_{old.name}", w.type(new), f"{w.type(old)} x", body)
