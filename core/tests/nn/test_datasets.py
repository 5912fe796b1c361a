"""nn.datasets: MNIST is read from the cache, checked, and missed with a clear sentence."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path

import pytest

from tinygraft import nn
from tinygraft.config import Context
from tinygraft.errors import FetchError, FileFormatError
from tinygraft.nn import datasets


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    """A gzipped IDX file."""
    return gzip.compress(bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + values, mtime=0)


def test_mnist_offline_says_where_and_what_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the error names the address, the folder, and the data that need no download."""
    monkeypatch.setattr(datasets, "_MNIST", "http://127.0.0.1:9/mnist/")
    with Context(TINYGRAFT_CACHE=str(tmp_path)), pytest.raises(FetchError) as caught:
        nn.datasets.mnist()
    assert re.fullmatch(
        r"cannot download http://127\.0\.0\.1:9/mnist/train-images-idx3-ubyte\.gz: .*refused.*\n"
        rf"  it would be kept in {tmp_path}/downloads/mnist, where you can put it yourself\n"
        r"  hint: nn\.datasets\.digits\(\) has 1797 small images of digits, and needs no download",
        str(caught.value),
    )


def test_mnist_reads_the_kept_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images come as (N, 1, H, W) and labels as (N,), uint8, in the order of the files."""
    from hashlib import md5

    files = [idx((2, 2, 2), bytes(range(8))), idx((2,), b"\1\2"), idx((1, 2, 2), bytes(4)), idx((1,), b"\3")]
    names = [name for name, _ in datasets._FILES]
    monkeypatch.setattr(datasets, "_FILES", tuple(zip(names, ((2, 2, 2), (2,), (1, 2, 2), (1,)), strict=True)))
    monkeypatch.setattr(datasets, "_DIGITS_MD5", tuple(md5(data).hexdigest() for data in files))
    folder = tmp_path / "downloads" / "mnist"
    folder.mkdir(parents=True)
    for name, data in zip(names, files, strict=True):
        (folder / name).write_bytes(data)
    with Context(TINYGRAFT_CACHE=str(tmp_path)):
        x_train, y_train, x_test, y_test = nn.datasets.mnist()
    assert [t.shape for t in (x_train, y_train, x_test, y_test)] == [(2, 1, 2, 2), (2,), (1, 1, 2, 2), (1,)]
    assert {t.dtype.name for t in (x_train, y_train, x_test, y_test)} == {"uchar"}
    assert x_train.tolist() == [[[[0, 1], [2, 3]]], [[[4, 5], [6, 7]]]]
    assert y_train.tolist() == [1, 2]
    assert y_test.tolist() == [3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nonsense", "a.gz: not a whole gzip file: "),
        (gzip.compress(b"abcdefgh", mtime=0), "a.gz: not an IDX file of bytes, it starts with b'abcd'"),
        (idx((2,), b"\1\2")[:-9], "a.gz: not a whole gzip file: "),
        (idx((3,), b"\1\2"), "a.gz: shape (3,) needs 3 bytes, the file has 2"),
    ],
)
def test_read_idx_refuses_what_it_is_not(data: bytes, message: str) -> None:
    """A file that is no gzip, no IDX, cut short or too small says so."""
    with pytest.raises(FileFormatError) as caught:
        datasets.read_idx(data, "a.gz")
    assert str(caught.value).startswith(message)


def cifar_file(folder: Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzipped archive of small batches where cifar() downloads it from: batch n has two images of class n."""
    import io
    import tarfile
    from hashlib import md5

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for number, name in enumerate(names):
            content = bytes([number, *[number + 1] * 3072]) * 2
            info = tarfile.TarInfo("cifar-10-batches-bin/" + name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    (folder / "cifar.tar.gz").write_bytes(out.getvalue())
    monkeypatch.setattr(datasets, "_CIFAR", (folder / "cifar.tar.gz").as_uri())
    monkeypatch.setattr(datasets, "_CIFAR_MD5", md5(out.getvalue()).hexdigest())


def test_cifar_joins_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five batches of labels and images become one set, the sixth the other."""
    cifar_file(tmp_path, (*datasets._CIFAR_TRAIN, *datasets._CIFAR_TEST), monkeypatch)
    with Context(TINYGRAFT_CACHE=str(tmp_path)):
        x_train, y_train, x_test, y_test = nn.datasets.cifar()
    assert [t.shape for t in (x_train, y_train, x_test, y_test)] == [(10, 3, 32, 32), (10,), (2, 3, 32, 32), (2,)]
    assert y_train.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert (y_test.tolist(), x_test.min().item(), x_test.max().item()) == ([5, 5], 6, 6)
    assert x_train[:, 0, 0, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_an_archive_that_is_not_cifar_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is missing is named."""
    cifar_file(tmp_path, ("data_batch_1.bin",), monkeypatch)
    with (
        Context(TINYGRAFT_CACHE=str(tmp_path)),
        pytest.raises(
            FileFormatError, match=r"an archive of CIFAR-10 has data_batch_2.bin, this one \['cifar-10-batches"
        ),
    ):
        nn.datasets.cifar()


def test_digits_ship_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are scikit-learn's, in its order; a damaged file of the package is named."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = nn.datasets.digits()
    assert (x.shape, x.dtype.name, y.dtype.name) == ((1797, 1, 8, 8), "uchar", "uchar")
    assert (x.numpy().reshape(1797, 64) == images).all() and (y.numpy() == labels).all()
    for data, message in ((b"x", "cannot be read: Not a gzipped file"), (gzip.compress(b"x"), "has other bytes")):
        (tmp_path / "other").write_bytes(data)
        monkeypatch.setattr(datasets, "_DIGITS", str(tmp_path / "other"))
        with pytest.raises(
            FileFormatError, match=f"{tmp_path}/other, a file of the package, {message}.*install it again"
        ):
            nn.datasets.digits()


def test_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By path or address, with a checksum; another text, and what is no text, are refused."""
    from hashlib import sha256

    (tmp_path / "a.txt").write_text("Grüße")
    path, address = tmp_path / "a.txt", (tmp_path / "a.txt").as_uri()
    checksum = sha256(path.read_bytes()).hexdigest()
    with Context(TINYGRAFT_CACHE=str(tmp_path)):
        assert nn.datasets.text(path) == nn.datasets.text(address, checksum) == "Grüße"
        with pytest.raises(FetchError, match="is not the file that was expected"):
            nn.datasets.text(path, "0" * 64)
        with pytest.raises(FileFormatError, match="is no text in ascii: 'ascii' codec can't decode"):
            nn.datasets.text(path, encoding="ascii")
        monkeypatch.setattr(datasets, "_SHAKESPEARE", address)
        with pytest.raises(FetchError, match="is not the file that was expected"):
            nn.datasets.tiny_shakespeare()
        monkeypatch.setattr(datasets, "_SHAKESPEARE_SHA256", checksum)
        assert nn.datasets.tiny_shakespeare() == "Grüße"
        monkeypatch.setattr(datasets, "_SHAKESPEARE", "http://127.0.0.1:9/input.txt")
        assert nn.datasets.tiny_shakespeare() == "Grüße"  # it is kept
    with (
        Context(TINYGRAFT_CACHE=str(tmp_path / "new")),
        pytest.raises(FetchError, match=r"cannot download http://127.*\n  it would be .*\n  hint: nn.datasets.text"),
    ):
        nn.datasets.tiny_shakespeare()


def test_fashion_mnist_is_mnist_of_clothes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own address."""
    monkeypatch.setattr(datasets, "_FASHION", "http://127.0.0.1:9/clothes/")
    with pytest.raises(FetchError, match=r"^cannot download http://127\.0\.0\.1:9/clothes/train-images"):
        nn.datasets.fashion_mnist()
