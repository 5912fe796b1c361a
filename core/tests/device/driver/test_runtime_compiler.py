"""Compilers in libraries of a driver's maker: what distinguishes their builds."""

from __future__ import annotations

from pathlib import Path

from tinygraft.device.driver.runtime_compiler import build_of


def test_builds_are_distinguished_by_their_size(tmp_path: Path) -> None:
    """Of a file its bytes; a name that the loader resolves is itself."""
    file = tmp_path / "libx.so"
    file.write_bytes(b"12345")
    assert build_of(str(file)) == "5"
    assert build_of("libx.so.13") == "libx.so.13"
