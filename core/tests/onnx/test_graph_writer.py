"""The writer: constants are folded and shared, nothing recurses, names are given once."""

from __future__ import annotations

from onnx_exports import compared, rand
from tinygraft import Tensor, onnx


def test_constants_are_computed_and_shared() -> None:
    """Numbers once each; a small table is data, a large mask is computed by the model."""
    model = onnx.export(lambda x: (x + 2.5) * 2.5 - Tensor.arange(4).float(), rand(3, 4))
    assert [each.name for each in model.graph.initializer] == ["const_2.5", "constant"]
    found = compared(lambda x: x + Tensor.ones(64, 64).tril(), rand(64, 64))
    assert found == ["Less", "Where", "Add"]


def test_deep_graphs_are_written() -> None:
    """5,000 operations one after the other, without recursion."""

    def deep(x: Tensor) -> Tensor:
        for number in range(5000):
            x = x + (number % 3)
        return x

    assert len(onnx.export(deep, rand(2), check=False).graph.node) == 5000
