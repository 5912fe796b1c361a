"""Kernels of one's own, calls of bodies with placeholders, and what both refuse."""

from __future__ import annotations

import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit
from tinygraft.errors import DeviceError, GraphError, ShapeError, UnsupportedError
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.uop import UOp


def load(memory: UOp, place: UOp) -> UOp:
    """An element of memory."""
    return UOp(Ops.LOAD, memory.dtype, (memory, place))


def kernel(*stores: tuple[UOp, UOp, UOp]) -> UOp:
    """A sink over stores of (memory, place, value)."""
    return UOp(Ops.SINK, src=tuple(UOp(Ops.STORE, src=store) for store in stores))


def scaled(out: UOp, a: UOp, b: UOp) -> UOp:
    """out = a * b."""
    place = UOp.range(out.arg.size, 0)
    return kernel((out, place, load(a, place) * load(b, place)))


def total(out: UOp, a: UOp) -> UOp:
    """out[0] = the sum of a; the rest of out is left as it is."""
    place = UOp.range(a.arg.size, 0)
    zero = UOp.const(place.dtype, 0)
    return kernel((out, zero, UOp(Ops.REDUCE, a.dtype, (load(a, place), place), ReduceArg(Ops.ADD))))


def test_a_kernel_computes_what_it_says() -> None:
    """Two loads, a product and a store: one launch, and the inputs come back themselves."""
    a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([4.0, 5.0, 6.0]).realize()
    GlobalCounters.reset()
    out, same_a, same_b = a.empty_like().custom_kernel(a, b, fxn=scaled)
    assert (same_a, same_b) == (a, b)
    assert GlobalCounters.kernel_count == 1
    assert out.tolist() == [4.0, 10.0, 18.0]


def test_what_a_kernel_does_not_store_stays() -> None:
    """The tensor that is written keeps its value, and the new one has the rest of it."""
    old = Tensor([7, 8, 9]).realize()
    new, _ = old.custom_kernel(Tensor([[1, 2], [3, 4]]), fxn=total)
    assert (new.tolist(), old.tolist()) == ([10, 8, 9], [7, 8, 9])


def test_expressions_and_views_are_stored_first() -> None:
    """A kernel sees the elements of a lazy or transposed tensor in their order."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    out = Tensor.empty(2, 2).custom_kernel(t.transpose() + 0, t.ones_like() * 10, fxn=scaled)[0]
    assert out.tolist() == [[10.0, 30.0], [20.0, 40.0]]


def test_a_kernel_has_the_derivative_that_is_given() -> None:
    """grad_fxn gets the gradient and all tensors, and gives one for each."""
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    out = a.empty_like().custom_kernel(a, b, fxn=scaled, grad_fxn=lambda g, out, a, b: (None, g * b, g * a))[0]
    (out * 2).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.tolist(), b.grad.tolist()) == ([6.0, 8.0], [2.0, 4.0])


def test_a_kernel_under_a_jit() -> None:
    """Replays launch it again on new memory."""

    @TinyJit
    def step(a: Tensor) -> Tensor:
        return (a.empty_like().custom_kernel(a, a, fxn=scaled)[0] + 1).realize()

    results = [step(Tensor([i, i + 1])) for i in range(5)]
    assert [r.tolist() for r in results] == [[i * i + 1, (i + 1) ** 2 + 1] for i in range(5)]
    assert step.captured == 1


def test_what_is_no_kernel_is_refused() -> None:
    """No sink, a node of the tensor graph, and a tensor that is not used, each with a sentence."""
    t = Tensor([1.0, 2.0])
    with pytest.raises(GraphError, match=r"^a kernel of one's own is a SINK over STOREs, its function gave int$"):
        t.custom_kernel(fxn=lambda a: 3)
    with pytest.raises(GraphError, match=r"^this is no kernel: a SINK is over STOREs, got LOAD\n  node: UOp\(Ops.SINK"):
        t.custom_kernel(fxn=lambda a: UOp(Ops.SINK, src=(load(a, UOp.range(2, 0)),)))
    with pytest.raises(GraphError, match=r"^a kernel of one's own uses each of its tensors, this one leaves out numb"):
        t.custom_kernel(t, t, fxn=lambda out, a, b: kernel((out, UOp.range(2, 0), load(a, UOp.range(2, 0)))))
    with pytest.raises(DeviceError, match=r"^cannot .* tensors on different devices"):
        t.to("NULL").custom_kernel(
            t.to("PYTHON"), fxn=lambda o, a: kernel((o, UOp.range(2, 0), load(a, UOp.range(2, 0))))
        )


def test_a_body_is_called_with_arguments() -> None:
    """Placeholders take their arguments by slot, in any shape of as many elements; gradients go to these."""
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0])
    body = a.as_param(0) * a.as_param(0) * b.as_param(1)
    out = a.call(b, fxn=body)
    assert out.tolist() == [3.0, 16.0]
    assert out.sum().gradient(a)[0].tolist() == [6.0, 16.0]
    assert a.call(b.reshape(2, 1), fxn=body.uop).tolist() == [3.0, 16.0]
    own = a.call(b, fxn=body, grad_fxn=lambda gradient, a, b: (gradient * b, None))
    assert own.sum().gradient(a)[0].tolist() == [3.0, 4.0]


def test_a_call_that_does_not_fit_is_refused() -> None:
    """A slot without an argument, and an argument of another size or dtype, are named."""
    a = Tensor([1.0, 2.0])
    with pytest.raises(GraphError, match=r"^the body has a placeholder for argument 1, and call got 1 arguments$"):
        a.call(fxn=a.as_param(1) + 1)
    with pytest.raises(
        ShapeError, match=r"^argument 0 of call has shape \(3,\) and dtypes.int, its placeholder 2 elem"
    ):
        Tensor([1, 2, 3]).call(fxn=a.as_param(0) + 1)


def test_video_has_no_decoder() -> None:
    """decode_hevc_frame says that there is none, and what to do."""
    t = Tensor([1], device="PYTHON")
    with pytest.raises(UnsupportedError, match=r"^PYTHON has no decoder of H.265 video, and no other device of tiny"):
        t.decode_hevc_frame(0, (2, 2), t)


def test_callify_compiles_and_runs_nothing() -> None:
    """After callify the kernel is there, and realize compiles none."""
    t = (Tensor([1.0, 2.0, 3.0]).realize() * 41 + 7).callify()
    GlobalCounters.reset()
    assert t.realize().tolist() == [48.0, 89.0, 130.0]
    assert (GlobalCounters.kernel_count, GlobalCounters.kernels_compiled) == (1, 0)
