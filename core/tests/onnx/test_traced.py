"""The trace: a function is called once, in evaluation mode, and the line of a node is found."""

from __future__ import annotations

from onnx_exports import rand
from tinygraft import Tensor, nn
from tinygraft.onnx.traced import trace
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort


def test_it_is_called_once_and_evaluates() -> None:
    """Dropout does nothing; training mode is as it was."""
    calls = []

    def run(x: Tensor) -> Tensor:
        calls.append(Tensor.training)
        return x.dropout(0.5)

    with Tensor.train():
        traced = trace(run, rand(3), {}, {}, None, None)
        assert Tensor.training
    assert calls == [False]
    assert traced.outputs["output"] is traced.inputs[0].node


def test_the_line_of_a_node_is_found() -> None:
    """Of the call that made it; a node that was there before has none."""

    def run(x: Tensor) -> Tensor:
        first = x + 1
        return first.sort()[0] * 2

    traced = trace(run, rand(3, 4), {}, {}, None, None)
    nodes = {node.op: node for node in toposort(*traced.outputs.values())}
    first = run.__code__.co_firstlineno
    assert traced.line_of(nodes[Ops.ADD]).endswith(f"test_traced.py:{first + 1}")
    assert traced.line_of(nodes[Ops.ROUTINE]).endswith(f"test_traced.py:{first + 2}")
    assert traced.line_of(rand(2).uop) == ""


def test_weights_have_the_names_of_their_model() -> None:
    """Of a module, of its bound method, of what a function closes over or has as a default."""
    model = nn.Linear(3, 2)
    for function, wanted in [
        (model, ["weight", "bias"]), (model.__call__, ["weight", "bias"]),
        (lambda x: model(x), ["model.weight", "model.bias"]), (lambda x, m=model: m(x), ["m.weight", "m.bias"]),
    ]:  # fmt: skip
        traced = trace(function, rand(4, 3), {}, {}, None, None)
        assert [name for name, _ in traced.weights.values()] == wanted
