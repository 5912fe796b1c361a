"""Who may import whom, as ARCHITECTURE.md draws it, and what an import may load."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "tinygraft"
LAYERS = [
    {
        "errors",
        "config",
        "helpers",
        "ported_helpers",
        "files",
        "temporary",
        "caches",
        "downloads",
        "progress",
        "interrupt",
        "start_seed",
        *("data", "distributed", "optim", "utils"),  # importing one raises, and says where it is
    },
    {"dtype", "events", "installed"},
    {"uop", "target", "collectives"},
    {"rules"},
    {"autograd", "schedule", "render", "hooks"},
    {"codegen", "device"},
    {"engine"},
    {"tensor"},
    {"onnx", "jit"},
    {
        "array_api",
        "nn",
        "interop",
        "functions",
        "function",
        "frontend",
        "mlops",
        "reference",
        "transforms",
        "ops",
        "shape",
    },
    {"plugin"},
    {"conformance"},
    {"cli", "__init__", "__main__"},
]
# The only imports that go up, and why.
UPWARD = {("tensor/data/sharing.py", "array_api"): "a Tensor is asked for the namespace that is made of its methods"}
NUMBER = {unit: number for number, units in enumerate(LAYERS) for unit in units}


def unit_of(file: Path) -> str:
    """The folder of a module below the package, or the module itself where it lies in no folder."""
    return file.relative_to(CORE).parts[0].removesuffix(".py")


def imports(file: Path, package: str) -> set[str]:
    """What a file imports of a package, wherever it does so: the first name below the package, or __init__."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.partition(".")[0] == package}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: line {node.lineno}: imports are absolute here"
            if node.module == package:
                found |= {f"{package}.{a.name}" if a.name in NUMBER else f"{package}.__init__" for a in node.names}
            elif (node.module or "").partition(".")[0] == package:
                found.add(node.module)
    return {name.split(".")[1] if "." in name else "__init__" for name in found}


def allowed(user: str, used: str) -> bool:
    """Lower layers, one's own folder, and single files of one's own layer."""
    single = (CORE / f"{user}.py").exists() or (CORE / f"{used}.py").exists()
    return NUMBER[used] < NUMBER[user] or used == user or (NUMBER[used] == NUMBER[user] and single)


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda f: str(f.relative_to(CORE)))
def test_imports_go_down(file):
    """A module imports from its own folder and from lower layers, also inside functions and for type checkers."""
    user = unit_of(file)
    assert user in NUMBER, f"{user} has no layer; give it one here and in ARCHITECTURE.md"
    up = {used for at, used in UPWARD if at == str(file.relative_to(CORE))}
    wrong = sorted(used for used in imports(file, "tinygraft") - up if not allowed(user, used))
    assert not wrong, f"layer {NUMBER[user]} ({user}) may not import {', '.join(wrong)}"


def test_the_drawing_agrees():
    """ARCHITECTURE.md lists every folder and file under its number."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for number, units in enumerate(LAYERS):
        for unit in units:
            name = f"{unit}/" if (CORE / unit).is_dir() else f"{unit}.py"
            if (CORE / name).exists():
                assert any(name in line and str(number) in line for line in text.splitlines()), f"{number} {name}"


@pytest.mark.parametrize("file", sorted((ROOT / "plugins").glob("*/src/**/*.py")), ids=lambda f: f.stem)
def test_plugins_see_only_the_contract(file):
    """A plugin imports tinygraft.plugin and nothing else of tinygraft."""
    assert imports(file, "tinygraft") <= {"plugin"}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh process has after running code, as a user's has: without the checks of SPEC=2."""
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    plain = {**os.environ, "SPEC": "0"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=plain)
    return set(done.stdout.splitlines()[-1].split())


LATE = {"numpy", "pluggy", "packaging", "tqdm", "cffi", "llvmlite", "tinygraft_cpu"}  # libraries, and a plugin
HEAVY = LATE | {"importlib.metadata", "importlib_metadata"}


def test_import_tinygraft_is_light():
    """import tinygraft loads nothing of its own but the package, no library and no plugin."""
    loaded = loaded_by("import tinygraft")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("tinygraft")} == {"tinygraft"}


def test_tensor_is_light():
    """Its import loads at most 92 modules of ours: no compiler, no scheduler, and nothing that reads metadata."""
    loaded = loaded_by("from tinygraft import Tensor")
    ours = {name for name in loaded if name.partition(".")[0] == "tinygraft"}
    assert len(ours) <= 92
    late = {"codegen", "schedule", "rules", "cli", "jit", "nn", "array_api", "conformance", "plugin", "reference"}
    assert {name.split(".")[1] for name in ours if "." in name} & late == set()
    assert not loaded & {*HEAVY, "subprocess", "tempfile", "difflib", "email"}


def test_the_public_names_are_light():
    """Every public name can be imported without a library or a plugin, and without opening a device."""
    code = "from tinygraft import *\nassert Device.opened() == []"
    assert not loaded_by(code) & LATE


@pytest.mark.parametrize(
    ("code", "library"),
    [
        ("from tinygraft.helpers import trange", "tqdm"),
        ("from tinygraft.installed.requires import satisfies\nsatisfies('1', '')", "packaging"),
    ],
)
def test_a_library_is_loaded_when_it_is_needed(code, library):
    """Neither helpers nor the commands that check nothing load it, but what asks for it does."""
    commands = "import tinygraft.helpers\nfrom tinygraft.cli.main import main\nmain(['devices', '--no-probe'])"
    assert library not in loaded_by(commands)
    assert library in loaded_by(code)


def test_public_names_exist():
    """Each name of __all__ is there, dir lists it, and what is not there is an AttributeError."""
    import tinygraft

    for name in tinygraft.__all__:
        assert getattr(tinygraft, name) is not None
        assert name in dir(tinygraft)
    with pytest.raises(AttributeError, match="module 'tinygraft' has no attribute 'Tensors'"):
        tinygraft.Tensors  # noqa: B018


@pytest.mark.parametrize(
    "command", ["--help", "devices --no-probe", "devices --no-probe --json", "settings", "devices", "doctor NULL"]
)
def test_commands_that_import_no_plugin(command):
    """Commands import no plugin in their own process: those that need one have a child process for it."""
    code = f"sys.argv = ['tinygraft', *{command.split()!r}]\nfrom tinygraft.cli.main import main\n"
    code += "try: main()\nexcept SystemExit as end: assert not end.code"
    assert not loaded_by(code) & {"tinygraft_cpu", "llvmlite", "cffi", "pyopencl", "pytest", "pluggy"}


@pytest.mark.parametrize("plugin", sorted((ROOT / "plugins").glob("*/src/*/spec.py")), ids=lambda f: f.parent.name)
def test_specs_of_ours_are_light(plugin):
    """A spec of ours may be imported without a trial in a child process: it loads no library and no driver."""
    assert not loaded_by(f"import {plugin.parent.name}.spec") & {"numpy", "cffi", "llvmlite", "ctypes.util"}


def test_buffer_and_device_are_found_in_the_device_package():
    """tinygraft.device gives Buffer and Device, which scripts look for there, and nothing that is not there."""
    import tinygraft.device as package
    from tinygraft.device.buffer import Buffer
    from tinygraft.device.registry import Device

    assert (package.Buffer, package.Device) == (Buffer, Device)
    with pytest.raises(AttributeError, match=r"module 'tinygraft.device' has no attribute 'Buffers'"):
        package.Buffers  # noqa: B018


def test_patterns_are_for_others():
    """No module of core imports patterns, but their own and the one that gives them to plugins."""
    own = {"uop/matching.py", "uop/pattern.py", "uop/rewrite.py", "uop/upat.py", "plugin/__init__.py"}
    matcher = {f"tinygraft.{name.removesuffix('.py').replace('/', '.')}" for name in own if name.startswith("uop/")}
    users = set()
    for file in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                named = {node.module, *[f"{node.module}.{alias.name}" for alias in node.names]}
                users |= {str(file.relative_to(CORE))} if named & matcher else set()
    assert users == own - {"uop/pattern.py"}


def test_no_private_name_is_imported():
    """A name with an underscore in front is for its own file; one that another file imports has none."""
    found = [f"{file.relative_to(CORE)}: {alias.name}" for file in CORE.rglob("*.py")
             for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
             for alias in node.names if (node.module or "").startswith("tinygraft")
             and alias.name.startswith("_") and not alias.name.endswith("__")]  # fmt: skip
    assert not found
