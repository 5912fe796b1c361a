"""Put into card/ what on_a_card.py needs on a machine without a network: NVRTC, packages, and a pycuda for its Python.

    python plugins/cuda/tests/pack_for_a_card.py [--python 3.12] [--without-nvrtc]

The folder is ignored by git, and takes some 40 MiB, of which NVRTC, packed by xz, is 35. A pycuda can only be built for
the Python that runs this; for another one, build it there: PYTHON -m tinygraft_cuda.build_pycuda --wheel card
"""

from __future__ import annotations

import argparse
import lzma
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tinygraft_cuda import build_pycuda

CARD = Path(__file__).parents[3] / "card"
PURE = ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "pycparser", "mako", "pytools", "platformdirs",
        "typing-extensions")  # fmt: skip
BUILT = ("cffi", "markupsafe", "siphash24")
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 27, 28)] + ["manylinux2014_x86_64"]
MOST = 64 << 20  # bytes that may travel


def main() -> int:
    """Fill the folder; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    parser.add_argument("--without-nvrtc", action="store_true", help="the machine has one, as where PyTorch is")
    given = parser.parse_args()
    CARD.mkdir(exist_ok=True)
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--dest"]
    chosen = ["--python-version", given.python, "--implementation", "cp", *platforms]
    subprocess.run([*download, str(CARD), *chosen, *PURE, *BUILT], check=True)
    if not given.without_nvrtc:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([*download, folder, *chosen, "nvidia-cuda-nvrtc==13.0.*"], check=True)
            pack(next(Path(folder).glob("*.whl")))
    if given.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        build_pycuda.main(["--wheel", str(CARD)])
    size = sum(file.stat().st_size for file in CARD.iterdir())
    print(f"{CARD} has {size / 2**20:.1f} MiB" + ("" if size <= MOST else ", and no more than 64 may travel"))
    return int(size > MOST)


def pack(wheel: Path) -> None:
    """Put the two libraries of a wheel that kernels need into the folder."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = name.rpartition("/")[2]
            if file.startswith(("libnvrtc.so", "libnvrtc-builtins.so")):
                (CARD / f"{file}.xz").write_bytes(lzma.compress(archive.read(name), preset=3))


if __name__ == "__main__":
    sys.exit(main())
