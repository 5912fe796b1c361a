"""Methods by the names of older versions give what the methods that they stand for give."""

from __future__ import annotations

import numpy as np

from tinygraft import Tensor, dtypes


def test_an_older_name_is_the_method() -> None:
    """Of each the value; `slice` reaches outside, where there is a value."""
    x = Tensor([[-1.0, 2.0], [3.0, -4.0]])
    assert x.leakyrelu(0.2).tolist() == x.leaky_relu(0.2).tolist()
    assert x.logsoftmax().tolist() == x.log_softmax().tolist()
    assert Tensor([5]).xor(Tensor([3])).tolist() == [6]
    assert x.llvm_bf16_cast(dtypes.float16).dtype is dtypes.float16
    assert x.cpu().device == "CPU" and x.cpu().tolist() == x.tolist()
    image = x.reshape(1, 1, 2, 2)
    assert image.pad2d((1, 0, 0, 2), 9.0).numpy()[0, 0].tolist() == [[9, -1, 2], [9, 3, -4], [9, 9, 9], [9, 9, 9]]
    inside = x.slice([None, (1, 2)])
    assert inside.tolist() == [[2.0], [-4.0]]
    wanted = np.pad(x.numpy(), ((1, 0), (0, 1)), constant_values=7)[:3, 1:]
    assert np.array_equal(x.slice([(-1, 2), (1, 3)], 7.0).numpy(), wanted)
    assert x.slice([(-2, 1), None]).shape == (3, 2)


def test_the_name_of_a_device_moves_a_tensor_there() -> None:
    """Of every device that is known or installed; what is no device is no method."""
    assert Tensor([1.0]).python().device == "PYTHON"
    assert not hasattr(Tensor([1.0]), "nowhere")
