"""`python -m tinygraft new-plugin NAME`: write a new device plugin that works from the start.

In: a name, a folder, a style. Out: a project that installs with pip and passes the conformance kit. Its files are made
from `templates/` by string.Template; it requires the core and the plugin API that run here.
"""

from __future__ import annotations

import argparse
import keyword
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from tinygraft import __version__
from tinygraft.config import SETTINGS
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.device.known import FIRST_PARTY, KNOWN
from tinygraft.device.registry import Device

TEMPLATES = Path(__file__).with_name("templates")
# style -> what the device is at first, and its kind
STYLES = {
    "c": ("kernels as shared libraries of the system's C compiler", "accelerator"),
    "interpreter": ("a device in Python, to be replaced part by part", "interpreter"),
}
# the files of a project, and the templates they are made from; both may contain names in $
FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "conformance.toml": "conformance.toml",
    ".github/workflows/test.yml": "test.yml",
    "src/$module/__init__.py": "init.py",
    "src/$module/spec.py": "spec.py",
    "src/$module/probe.py": "$style/probe.py",
    "src/$module/device.py": "$style/device.py",
    "src/$module/py.typed": "",
    "tests/test_${entry}_conformance.py": "test_conformance.py",
}


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `new-plugin` to the parser."""
    parser = subparsers.add_parser(
        "new-plugin",
        help="write a device plugin of your own that works from the start",
        description="Write the project tinygraft-NAME: a device plugin that installs with pip and passes the "
        "conformance kit as it is. From there its renderer, memory and compiler become those of your device.",
    )
    parser.add_argument("name", metavar="NAME", help="small letters, digits and dashes, such as acme or my-chip")
    parser.add_argument("--dest", metavar="FOLDER", default=".", help="where the project's folder is made (default: .)")
    parser.add_argument("--device", metavar="DEVICE", help="what the device is called (default: NAME in capitals)")
    parser.add_argument(
        "--style",
        choices=STYLES,
        default="c",
        help="; ".join(f"{style}: {what}" for style, (what, _) in STYLES.items()),
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the project and print the next steps. Returns the exit code, 2 where it cannot be written."""
    device = (arguments.device or arguments.name.replace("-", "_")).upper()
    fault = _fault(arguments.name, device)
    if fault is None:
        names = _names(arguments.name, device, arguments.style)
        folder = Path(arguments.dest, names["distribution"])
        fault = _write(folder, project(names))
    if fault is not None:
        print(f"tinygraft new-plugin: {fault}", file=sys.stderr)
        return 2
    print(f"{folder} has the device {device}. Next:")
    place = folder if folder.is_absolute() else f"./{folder.as_posix()}"  # as pip needs it, and as pages have it
    print(f'  pip install -e "{place}[test]"')
    print(f"  python -m tinygraft doctor {device}")
    print(f"  python -m tinygraft conformance --device {device}")
    print(f"and then change {folder / 'src' / names['module'] / 'device.py'}")
    return 0


def project(names: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a project, by their paths below its folder, with their text."""
    files = {}
    for path, source in FILES.items():
        template = TEMPLATES / f"{Template(source).substitute(names)}.template"
        text = template.read_text(encoding="utf-8") if source else ""
        files[Template(path).substitute(names)] = Template(text).substitute(names)
    return files


def bounds(version: str) -> str:
    """Return the versions of core that a plugin made with `version` of it requires, as pip reads it.

    >>> bounds("0.1.0"), bounds("2.3.1")
    ('>=0.1,<0.2', '>=2.3,<3')
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    return f">={major}.{minor},<{major + 1}" if major else f">=0.{minor},<0.{minor + 1}"


def _names(name: str, device: str, style: str) -> dict[str, str]:
    """Return the names that templates may contain, with their values."""
    major, minor = PLUGIN_API
    what, kind = STYLES[style]
    return {
        "distribution": f"tinygraft-{name}",
        "module": f"tinygraft_{name.replace('-', '_')}",
        "device": device,
        "entry": device.lower(),
        "class_name": "".join(word.capitalize() for word in name.split("-")),
        "style": style,
        "summary": what,
        "kind": kind,
        "core_bounds": bounds(__version__),
        "api_min": str(PLUGIN_API),
        "api_below": str((major + 1, 0) if major else (0, minor + 1)),
    }


def _fault(name: str, device: str) -> str | None:
    """Return why there can be no plugin of that name with that device, as a sentence; None when there can."""
    if name.lower().startswith("tinygraft-"):
        return f"{name} begins with tinygraft-, which is put before every name; leave it out"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        return f"{name!r} is no name for a plugin: small letters, digits and single dashes, such as acme or my-chip"
    if keyword.iskeyword(word := name.replace("-", "_")):
        return f"{name} is a keyword of Python; choose another name, such as {name}-device"
    if word in sys.stdlib_module_names:
        return f"{name} is a module of Python's standard library; choose another name, such as {name}-device"
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", device):
        return f"{device!r} is no name for a device: letters, digits and _, such as ACME; give one with --device"
    if device in SETTINGS:
        return f"{device} is a setting of tinygraft; choose another name, or another device with --device"
    distribution = f"tinygraft-{name}"
    if distribution in FIRST_PARTY:
        return f"{distribution} is one of tinygraft's own packages; choose another name"
    others = {record.name: record.provided_by for record in Device.records() if record.distribution != distribution}
    owner = KNOWN[device][0] if device in KNOWN else others.get(device)
    if owner is not None:
        return f"{device} is the device of {owner}; choose another name, or another device with --device"
    return None


def _write(folder: Path, files: Mapping[str, str]) -> str | None:
    """Write the files of a project into a new folder. Returns what went wrong; the folder is removed then."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError as error:
        if Path(error.filename) == folder:
            return f"{folder} exists already; remove it, or choose another --dest"
        return f"{error.filename} is a file, and not a folder to put the project into; choose another --dest"
    except OSError as error:
        return f"{error.filename} cannot be made ({error.strerror}); choose another --dest"
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return f"{error.filename} cannot be written ({error.strerror}); choose another --dest"
    return None
