"""What notebooks show of tensors: tabs with values, a picture, the graph and the kernels; nothing is computed."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit
from tinygraft.tensor.data.notebook import _png


def labels(text: str) -> list[str]:
    """The names of the tabs."""
    return re.findall(r"<label[^>]*>(\w+)</label>", text)


def pixels(text: str) -> np.ndarray:
    """The picture on a page, decoded by hand: grey or colours, rows without filters."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)", text)[1])  # type: ignore[index]
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        (length,), name = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        content = data[at + 8 : at + 8 + length]
        assert zlib.crc32(name + content) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        if name == b"IHDR":
            width, height, _, kind = struct.unpack(">IIBB", content[:10])
        body += content if name == b"IDAT" else b""
        at += 12 + length
    channels = {0: 1, 2: 3, 6: 4}[kind]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


class _Balance(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Note an element."""
        if tag not in ("input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that it is the last one."""
        assert self.open.pop() == tag


def test_values_and_a_picture_of_a_matrix() -> None:
    """dtype, shape, device and values in text; the picture goes from the least number to the greatest."""
    text = Tensor([[0.0, 1.0, 2.0], [4.0, 3.0, 2.0]], device="PYTHON").realize()._repr_html_()
    assert "<b>Tensor</b> float (2, 3) on PYTHON" in text
    assert "[[0., 1., 2.]," in text
    assert labels(text) == ["values", "graph", "kernels"]
    assert pixels(text)[:, :, 0].tolist() == [[0, 64, 128], [255, 191, 128]]
    assert "black is 0, white is 4" in text


def test_images_have_their_channels_first_or_last() -> None:
    """Bytes are shown as they are, floats from 0 to 1 as bytes; a batch of images has no picture."""
    image = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    assert (pixels(Tensor(image)._repr_html_()) == image).all()
    assert (pixels(Tensor(image.transpose(2, 0, 1).copy())._repr_html_()) == image).all()
    assert (pixels(Tensor((image / 255).astype(np.float32))._repr_html_()) == image).all()
    assert "<img" not in Tensor(image[None])._repr_html_()


def test_special_numbers_have_a_picture() -> None:
    """NaN is black and an infinity at the end of the scale; a constant matrix and one of the largest floats work."""
    text = Tensor([[float("nan"), 1.0], [float("inf"), 3.0]], device="PYTHON")._repr_html_()
    assert pixels(text)[:, :, 0].tolist() == [[0, 0], [255, 255]]
    assert (pixels(Tensor([[2.0, 2.0]] * 2, device="PYTHON")._repr_html_()) == 0).all()
    big = Tensor(np.array([[-1.7e308, 0.0], [0.0, 1.7e308]]), device="PYTHON")
    assert pixels(big._repr_html_())[:, :, 0].tolist() == [[0, 128], [128, 255]]


def test_large_matrices_are_sampled() -> None:
    """At most 128 rows and columns are in the picture."""
    assert pixels(Tensor(np.eye(1000, dtype=np.float32))._repr_html_()).shape == (128, 128, 1)


def test_a_lazy_tensor_shows_graph_and_kernels_and_stays_lazy() -> None:
    """The boxes of the graph, and each kernel with its source; nothing is launched."""
    (Tensor([1.0]) + 1).realize()  # opens the device
    y = (Tensor([[1.0, 2.0]]) * 3).sum()
    node = y.uop
    GlobalCounters.reset()
    text = y._repr_html_()
    assert labels(text) == ["values", "graph", "kernels"]
    assert text.count("<rect") >= 3
    assert "REDUCE_AXIS" in text
    assert text.count("<details>") == 1
    assert (y.uop is node, GlobalCounters.kernel_count) == (True, 0)
    assert y.item() == 9.0


@pytest.mark.parametrize("make", [
    lambda: Tensor([1 + 2j, 3]), lambda: Tensor([1 + 2j]) * 2, lambda: Tensor.ones(3, 3), lambda: Tensor([]),
    lambda: Tensor(3.0), lambda: object.__new__(Tensor), lambda: Tensor([1.0], device="NULL").realize(),
    lambda: Tensor([[1, 2]]).shard(("PYTHON", "PYTHON:1"), 1).realize(), lambda: Tensor([1.0]).sin().sum() + 1,
])  # fmt: skip
def test_every_tensor_has_a_page_of_balanced_elements(make: object) -> None:
    """Complex, constant, empty, broken, sharded and unreadable ones."""
    parser = _Balance()
    parser.feed(make()._repr_html_())  # type: ignore[operator]
    assert parser.open == []


def test_while_tinyjit_records_nothing_is_scheduled() -> None:
    """The page says so, and the function is replayed."""
    pages: list[str] = []

    @TinyJit
    def step(x: Tensor) -> Tensor:
        y = x + 1
        pages.append(y._repr_html_())
        return y.realize()

    assert [step(Tensor([1.0 * n]).realize()).item() for n in range(4)] == [1, 2, 3, 4]
    assert "not shown while TinyJit records" in pages[-1]
    assert len(pages) < 4


def test_a_gradient_has_a_tab() -> None:
    """After backward."""
    t = Tensor([1.0], requires_grad=True)
    (t * t).sum().backward()
    assert labels(t._repr_html_()) == ["values", "gradient", "graph", "kernels"]


def test_a_png_of_four_channels() -> None:
    """Transparent pictures are kept."""
    image = np.arange(4 * 5 * 4, dtype=np.uint8).reshape(4, 5, 4)
    assert (pixels(f'base64,{base64.b64encode(_png(image)).decode()}"') == image).all()
