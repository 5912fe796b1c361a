"""Data sets: images of digits that ship with the package; others, and texts, downloaded once and checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygraft.downloads import fetch
from tinygraft.errors import FileFormatError, in_place_of, no_such_name
from tinygraft.helpers import prod
from tinygraft.nn.archives import tar_extract
from tinygraft.tensor.tensor import Tensor

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_OFFLINE = "nn.datasets.digits() has 1797 small images of digits, and needs no download"

_NO_TEXT = "nn.datasets.text(path) reads any text file of yours"
_NAMES = ("cifar", "digits", "fashion_mnist", "mnist", "read_idx", "text", "tiny_shakespeare")

# name and shape; the MD5 of the digits and of the clothes, as torchvision lists them
_FILES = (
    ("train-images-idx3-ubyte.gz", (60000, 28, 28)),
    ("train-labels-idx1-ubyte.gz", (60000,)),
    ("t10k-images-idx3-ubyte.gz", (10000, 28, 28)),
    ("t10k-labels-idx1-ubyte.gz", (10000,)),
)
_DIGITS_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c",
)  # fmt: skip
_FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310",
)  # fmt: skip

_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_CIFAR_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR_FOLDER = "cifar-10-batches-bin/"
_CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_CIFAR_TEST = ("test_batch.bin",)


_SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
_SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

_DIGITS = "digits.gz"  # beside this file: 1797 images of 64 bytes, then 1797 labels
_DIGITS_SHAPE = (1797, 1, 8, 8)
_DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise AttributeError with the name that was meant, as mnist for MNIST and cifar for CIFAR10."""
        raise no_such_name("tinygraft.nn.datasets", name, in_place_of(name, _NAMES, {}))


def digits(device: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (X, Y): 1797 images of handwritten digits, (1797, 1, 8, 8) from 0 to 16, and labels (1797,), both uint8.

    They ship with the package: nothing is downloaded. Their order is that of scikit-learn's load_digits. Raises
    FileFormatError where the file of the installed package is damaged.

    Source: Alpaydin & Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998,
    doi:10.24432/C50P49, the test set, under CC BY 4.0; preprocessed by programs of NIST (NISTIR 5469).

    >>> x, y = digits()
    >>> x.shape, y[:4].tolist()
    ((1797, 1, 8, 8), [0, 1, 2, 3])
    """
    path = Path(__file__).parent / _DIGITS
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path}, a file of the package, cannot be read: {error}: install it again") from None
    if hashlib.sha256(data).hexdigest() != _DIGITS_SHA256:
        raise FileFormatError(f"{path}, a file of the package, has other bytes than it should: install it again")
    count = prod(_DIGITS_SHAPE)
    images = Tensor(data[:count], dtype="uint8", device=device).reshape(*_DIGITS_SHAPE)
    return images, Tensor(data[count:], dtype="uint8", device=device)


def text(url: str | os.PathLike[str], checksum: str | None = None, encoding: str = "utf-8") -> str:
    """Return the text at an address or path, downloaded once as `fetch` does; `checksum` is its MD5 or SHA-256.

    Raises FetchError where it cannot be had, or is another one, and FileFormatError for what is no text in `encoding`.
    """
    return _decoded(fetch(url, subdir="text", checksum=checksum), encoding)


def tiny_shakespeare() -> str:
    """Return the 1,115,394 characters of plays that small language models are compared on, downloaded once, checked.

    Raises FetchError, which names the address and the folder, when they can be neither found nor downloaded.
    Source: Karpathy, "char-rnn", 2015.
    """
    path = fetch(_SHAKESPEARE, "input.txt", "tinyshakespeare", checksum=_SHAKESPEARE_SHA256, hint=_NO_TEXT)
    return _decoded(path, "utf-8")


def _decoded(path: Path, encoding: str) -> str:
    """Return the text of a file.

    Raises FileFormatError for what is no text in `encoding`, and for an unknown encoding.
    """
    try:
        return path.read_bytes().decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise FileFormatError(f"{path} is no text in {encoding}: {error}") from None


def fashion_mnist(device: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (X_train, Y_train, X_test, Y_test) of Fashion-MNIST.

    It is `mnist` with `fashion=True`, which says what raises.
    """
    return mnist(device, fashion=True)


def mnist(device: str | None = None, fashion: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (X_train, Y_train, X_test, Y_test) of MNIST, or of Fashion-MNIST, all uint8.

    Images are (60000, 1, 28, 28) and (10000, 1, 28, 28) from 0 to 255, labels (60000,) and (10000,) from 0 to 9. The
    files (11 MB, or 30) are downloaded the first time, checked, and cached in the cache folder.

    Raises FetchError, which names the address and the folder, when they can be neither found nor downloaded, or are
    other files, and FileFormatError for one that is damaged. Source: LeCun, Cortes & Burges, "The MNIST database";
    Xiao, Rasul & Vollgraf, arXiv:1708.07747.
    """
    base, subdir = (_FASHION, "fashion-mnist") if fashion else (_MNIST, "mnist")
    found = []
    for (name, shape), checksum in zip(_FILES, _FASHION_MD5 if fashion else _DIGITS_MD5, strict=True):
        path = fetch(base + name, name, subdir, checksum=checksum, hint=_OFFLINE)
        found.append(_tensor(read_idx(path.read_bytes(), str(path)), shape, device))
    x_train, y_train, x_test, y_test = found
    return x_train, y_train, x_test, y_test


def cifar(device: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (X_train, Y_train, X_test, Y_test) of CIFAR-10, all uint8.

    Images are (50000, 3, 32, 32) and (10000, 3, 32, 32) from 0 to 255, labels (50000,) and (10000,) from 0 to 9. The
    file (170 MB) is downloaded the first time, checked, unpacked and cached in the cache folder.

    Raises FetchError as mnist does, and FileFormatError for a file that is not CIFAR-10. Source: Krizhevsky, "Learning
    Multiple Layers of Features from Tiny Images", 2009.
    """
    path = fetch(_CIFAR, "cifar-10.tar", "cifar", checksum=_CIFAR_MD5, gunzip=True, hint=_OFFLINE)
    files = tar_extract(path)
    found: list[Tensor] = []
    for names in (_CIFAR_TRAIN, _CIFAR_TEST):
        missing = [name for name in names if _CIFAR_FOLDER + name not in files]
        if missing:
            raise FileFormatError(f"{path}: an archive of CIFAR-10 has {missing[0]}, this one {sorted(files)[:3]}")
        parts = [files[_CIFAR_FOLDER + name].reshape(-1, 1 + 3 * 32 * 32) for name in names]
        rows = parts[0].cat(*parts[1:]).to(device)
        found += [rows[:, 1:].reshape(-1, 3, 32, 32).contiguous(), rows[:, 0].contiguous()]
    x_train, y_train, x_test, y_test = found
    return x_train, y_train, x_test, y_test


def _tensor(data: tuple[bytes, tuple[int, ...]], expected: tuple[int, ...], device: str | None) -> Tensor:
    """Return values and shape as read_idx has them as a uint8 tensor, images (n, 1, height, width).

    Raises FileFormatError for a shape that is not `expected`.
    """
    values, shape = data
    if shape != expected:
        raise FileFormatError(f"the data set has shape {shape}, expected {expected}")
    shape = (shape[0], 1, *shape[1:]) if len(shape) > 1 else shape
    return Tensor(values, dtype="uint8", device=device).reshape(shape)


def read_idx(data: bytes, label: str) -> tuple[bytes, tuple[int, ...]]:
    """Return (values, shape) of a gzipped IDX file of bytes: 0, 0, 8, the rank, the sizes, then the values.

    `data` are the bytes of the file and `label` its name for errors. Raises FileFormatError where it is no whole gzip
    file, no IDX file of bytes, or has more or fewer values than its shape.
    """
    try:
        raw = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{label}: not a whole gzip file: {error}") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or len(raw) < 4 + 4 * raw[3]:
        raise FileFormatError(f"{label}: not an IDX file of bytes, it starts with {raw[:4]!r}")
    shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    values = raw[4 + 4 * raw[3] :]
    if len(values) != prod(shape):
        raise FileFormatError(f"{label}: shape {shape} needs {prod(shape)} bytes, the file has {len(values)}")
    return values, shape
