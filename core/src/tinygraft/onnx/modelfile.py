"""A model file as an onnx.ModelProto, and what such a file may not do.

A path, bytes or a ModelProto in; the proto and the folder of its external data out. Whatever is wrong with a file is a
FileFormatError. External data has to be a regular file within the model's folder: a path that leaves it, by its parts
or by a link, is refused, as is a file that has a second name elsewhere.

Sources: https://github.com/onnx/onnx/blob/main/docs/ExternalData.md; CVE-2024-27318 and CVE-2022-25882 for the paths.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.files import OpenFile

_MOST = 1 << 31  # given: protobuf refuses messages of 2 GiB


def onnx_package() -> Any:
    """The package onnx. Raises UnsupportedError where it is not installed."""
    try:
        import onnx
    except ImportError as error:
        raise UnsupportedError(
            f"a model of ONNX is read with the package onnx, which cannot be imported: {error}\n"
            "  hint: pip install tinygraft[onnx]"
        ) from error
    return onnx


def read_model(source: Any) -> tuple[Any, Path | None, str]:
    """The proto of a path, of bytes or of a proto, the folder it is in, and what messages call it.

    Raises FileFormatError where it is no model, OSError where the file cannot be read.
    """
    onnx = onnx_package()
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "<model>"), None, "<model>"
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, folder, label = bytes(source), None, "<bytes>"
    else:
        file, label = OpenFile(source), os.fspath(source)
        if file.size >= _MOST:
            raise FileFormatError(
                f"{label} has {file.size} bytes, and a model of ONNX has less than {_MOST}: keep its weights in a file "
                "beside it (onnx.save with save_as_external_data)"
            )
        data, folder = file.read(0, file.size), Path(label).resolve().parent
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception as error:  # protobuf's DecodeError, whose types are not known here
        raise FileFormatError(f"{label} is no model of ONNX, or was cut short: {error}") from None
    return _checked(model, label), folder, label


def _checked(model: Any, label: str) -> Any:
    """Return `model`. Raises FileFormatError unless it has a graph and the versions of its operators."""
    if not model.HasField("graph") or not model.opset_import:
        raise FileFormatError(
            f"{label} is no model of ONNX: it has no graph, or does not say the version of its operators"
        )
    return model


def external_file(location: str, folder: Path | None, label: str) -> OpenFile:
    """Return the file of external data at a location, opened.

    Raises FileFormatError where it is not within the model's folder, leaves it by a link, is not there or has a second
    name. `folder` None is a model without a path, which has no external data; `label` is its name.
    """
    if folder is None:
        raise FileFormatError(
            f"{label}: the data of the model is in the file {location!r}; load the model from its path"
        )
    parts = location.replace("\\", "/").split("/")
    if not location or os.path.isabs(location) or ".." in parts or "\0" in location or ":" in parts[0]:
        raise FileFormatError(f"{label}: external data at {location!r} is refused: it is not a path within {folder}")
    path = folder / location
    found = Path(os.path.realpath(path))
    if not found.is_relative_to(os.path.realpath(folder)):
        raise FileFormatError(f"{label}: external data at {location!r} is refused: a link leads it out of {folder}")
    if not found.is_file():
        raise FileFormatError(f"{label}: there is no file of external data {location!r} in {folder}")
    if os.stat(found).st_nlink > 1:
        raise FileFormatError(
            f"{label}: external data at {location!r} is refused: the file has a second name (a hard link), which "
            "may be outside the folder; copy it"
        )
    return OpenFile(found)
