"""Contributors: passes, profilers, checks, suites, commands and the default device; one that fails is named."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from hooked import values
from tinygraft import Context, Device, Tensor, config, events, hooks
from tinygraft.cli.main import main
from tinygraft.codegen.options import Options
from tinygraft.device.default_choice import requested_by_plugins
from tinygraft.engine import compile, diskcache, plan
from tinygraft.errors import DeviceUnavailable, HookError
from tinygraft.hooks import (
    CodegenPass,
    Command,
    DoctorCheck,
    ProfileSink,
)
from tinygraft.hooks.manager import here
from tinygraft.installed.records import Status
from tinygraft.uop.ops import Ops


def test_a_pass_runs_and_is_part_of_the_keys(register):
    """A contributed pass changes the kernels it is asked for, and neither memory nor plans mix them with others."""
    stages = []

    def passes(request):
        stages.append(request.stage)
        if request.stage == "kernel":
            return [CodegenPass(id="count", version=1, run=lambda sink, target: stages.append(sink.op) or sink)]
        return None

    plain = Options.here([Device["PYTHON"].target])
    values(1, 2, 3, 4, 5)
    undo = register(codegen_passes=passes)
    assert Options.here([Device["PYTHON"].target]).passes == ("0 kernel count 1",)
    assert values(6, 7, 8, 9, 10) == [17, 19, 21, 23, 25]
    assert Ops.SINK in stages  # the kernel was there already, and was made anew
    undo()
    assert Options.here([Device["PYTHON"].target]) == plain
    count = len(stages)
    values(1, 2, 3, 4, 5)
    assert len(stages) == count


def test_versions_tell_kernels_apart(register, monkeypatch):
    """Another version of a pass is another key: on disk too, where the name of a pack has it."""
    named = []
    put = diskcache.put
    monkeypatch.setattr(diskcache, "put", lambda name, content: named.append(name) or put(name, content))
    with Context(DEV="CPU", SPEC=0):
        for version in (1, 2):
            undo = register(
                codegen_passes=lambda request, version=version: [
                    CodegenPass(id=f"same {request.stage}", version=version, run=lambda sink, target: sink)
                ]
            )
            plan.clear()
            compile.clear()
            (Tensor([1.0, 2, 3]) * 5 + 17).tolist()
            undo()
    kernels = len(set(named)) - 2
    assert len(named) == len(set(named)) == kernels + 2  # one binary for both, since the source is the same, two packs
    assert kernels == 1


def test_passes_run_in_order(register):
    """Passes of a stage run by order, then by id, whoever contributes them."""
    ran = []

    def make(id, order):
        return CodegenPass(id=id, version=1, order=order, run=lambda sink, target: ran.append(id) or sink)

    for ids in (["b", "late"], ["a"]):
        register(
            codegen_passes=lambda request, ids=ids: (
                [make(id, 5 if id == "late" else 0) for id in ids] if request.stage == "transformed" else None
            )
        )
    values(*range(12))
    assert ran == ["a", "b", "late"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda request: 1 / 0, "tinygraft_codegen_passes of the plugin raised ZeroDivisionError: division by zero"),
        (lambda request: "pass",
         "tinygraft_codegen_passes of the plugin returned 'pass', not a list whose items are each CodegenPass"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: sink)] * 2,
         "the plugin and the plugin both contribute a codegen pass 'x'"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: None)],
         "the codegen pass 'x' of the plugin gave NoneType, not the SINK of a kernel"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: [][1])],
         "the codegen pass 'x' of the plugin raised IndexError: list index out of range"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: sys.exit("bye"))],
         "the codegen pass 'x' of the plugin raised SystemExit: bye"),
        (lambda request: sys.exit(5), "tinygraft_codegen_passes of the plugin raised SystemExit: 5"),
    ],
)  # fmt: skip
def test_a_contributor_that_fails_is_named(register, given, sentence):
    """A contributor that raises, or gives what it should not, is an error that says whose it is."""
    register(codegen_passes=given)
    with pytest.raises(HookError) as caught:
        values(*range(13))
    assert str(caught.value) == sentence


def test_beam_leaves_contributed_passes_alone(register, monkeypatch):
    """A kernel that plugins change is not searched: the child process that times versions has no such plugin."""
    from tinygraft.engine import search

    monkeypatch.setattr(search, "tuned", lambda *_: pytest.fail("searched"))
    register(codegen_passes=lambda request: [CodegenPass(id=request.stage, version=1, run=lambda sink, target: sink)])
    with Context(BEAM=1, CACHELEVEL=0):
        assert values(*range(14))[0] == 14


def test_beam_searches_the_kernels_beside_those_with_passes(monkeypatch):
    """Of two devices' kernels compiled together, those that a plugin's pass changes keep it, and are not searched."""
    from tinygraft.codegen.options import Options
    from tinygraft.engine import compile as compiling
    from tinygraft.engine import search

    searched = []
    monkeypatch.setattr(search, "tuned", lambda jobs, beam: searched.append((jobs, beam)) or {})
    keys = [("backend", "plain", Options(beam=2)), ("other", "changed", Options(beam=2, passes=("pass",)))]
    assert compiling._tuned(keys) == {}
    assert searched == [([("plain", "backend")], 2)]


class Sink(ProfileSink):
    """Keeps what it is told."""

    def __init__(self, session):
        self.session, self.events, self.closed = session, [], False

    def take(self, event):
        """Keep it."""
        self.events.append(event)

    def close(self):
        """Note it."""
        self.closed = True


def test_a_profile_is_given_to_sinks(register):
    """Within hooks.profile every event goes to the sinks of plugins, which are closed at its end."""
    sinks = []
    register(profiler=lambda session: sinks.append(Sink(session)) or sinks[-1])
    with hooks.profile("two numbers"):
        values(1, 2)
        assert events.on_launch
    assert not events.on_launch
    values(3, 4)
    (sink,) = sinks
    assert (sink.session.name, sink.closed) == ("two numbers", True)
    assert [e.name for e in sink.events if isinstance(e, hooks.LaunchEvent)] == ["E_2"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "no hook plugin contributes a profiler (tinygraft_profiler); install or register one"),
        (lambda session: None, "no hook plugin contributes a profiler (tinygraft_profiler); install or register one"),
        (lambda session: 3, "tinygraft_profiler of the plugin returned a int, not a ProfileSink"),
        (lambda session: 1 / 0, "tinygraft_profiler of the plugin raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_profile_without_a_sink(register, given, sentence):
    """A profile that nobody keeps is refused."""
    if given is not None:
        register(profiler=given)
    with pytest.raises(HookError) as caught, hooks.profile():
        pass
    assert str(caught.value) == sentence


def test_a_sink_that_fails_at_its_end(register):
    """What a sink raises in close is a warning; the profile has ended all the same."""

    class Bad(Sink):
        def close(self):
            raise OSError("disk full")

    register(profiler=lambda session: Bad(session))
    sentence = "the profiler of the plugin raised OSError: disk full at its end"
    with pytest.warns(RuntimeWarning, match=sentence), hooks.profile():
        pass


def test_profile_1_is_the_whole_program(fakes):
    """PROFILE=1 gives every event until the end of the program to the profilers that are installed."""
    fakes.add_hooks(
        """
        class Count(ProfileSink):
            launches = 0
            def take(self, event):
                self.launches += isinstance(event, LaunchEvent)
            def close(self):
                print("launches:", self.launches)

        @hookimpl
        def tinygraft_profiler(session):
            return Count()
        """
    )
    code = "from tinygraft import Tensor\nfor n in (1, 2): (Tensor([n, 2, 3]) * 2).realize()"
    path = os.pathsep.join([str(fakes.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PROFILE": "1", "DEV": "PYTHON", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("launches: 2\n", "")


def test_a_plugin_chooses_the_default(register, fakes):
    """tinygraft_choose_default sees what is installed and names a device; None leaves it to the priorities."""
    asked = []
    register(choose_default=lambda request: asked.append(request) or "slow")
    fakes.add("FAST", priority=100)
    fakes.add("SLOW", priority=10)
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    assert fakes.registry().DEFAULT == "SLOW"
    (request,) = asked
    assert [(c.name, c.status, c.priority) for c in request.candidates] == [
        ("FAST", "available", 100), ("GONE", "unavailable", 50), ("SLOW", "available", 10)
    ]  # fmt: skip
    register(choose_default=lambda request: None)
    assert fakes.registry().DEFAULT == "SLOW"


def test_settings_win_over_a_plugins_choice(register, fakes, setting):
    """Whoever asks for a device is not overruled."""
    register(choose_default=lambda request: pytest.fail("asked"))
    fakes.add("FAST", priority=100)
    fakes.add("SLOW", priority=10)
    setting(config.DEV, "SLOW")
    assert fakes.registry().DEFAULT == "SLOW"


def test_a_plugins_choice_never_falls_back(register, fakes):
    """A device that a plugin chose and that cannot be used is an error that names the plugin."""
    fakes.add("TOY")
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    undo = register(choose_default=lambda request: "GONE")
    registry = fakes.registry()
    with pytest.raises(
        DeviceUnavailable, match="^the plugin chooses GONE: GONE is installed .* but there is none here"
    ):
        registry[registry.DEFAULT]
    undo()
    undo = register(choose_default=lambda request: "TOYY")
    with pytest.raises(DeviceUnavailable, match="^the plugin chooses TOYY: no plugin provides a device TOYY"):
        fakes.registry().DEFAULT  # noqa: B018
    undo()
    register(choose_default=lambda request: 3)
    with pytest.raises(HookError, match="tinygraft_choose_default of the plugin returned a int, not a name or None"):
        fakes.registry().DEFAULT  # noqa: B018


def test_nobody_is_looked_at_without_a_chooser(fakes, installed_hooks):
    """Without such a plugin the choice costs nothing: no record moves."""
    fakes.add("TOY")
    records = fakes.registry().records()
    assert requested_by_plugins(records) is None
    assert [r.status for r in records] == [Status.DECLARED]


def test_suites_and_checks_are_asked_for(register):
    """The kit asks for further test classes, the doctor for checks; what is none of that names the plugin."""

    class Suite:
        pass

    check = DoctorCheck(name="paper", run=lambda: "fine")
    undo = register(conformance_suites=lambda spec: [Suite] if spec == "TOY" else None, doctor_checks=lambda: [check])
    assert (here.conformance_suites("TOY"), here.conformance_suites("DOLL")) == ([Suite], [])
    assert here.doctor_checks() == [("the plugin", check)]
    undo()
    register(conformance_suites=lambda spec: [3], doctor_checks=lambda: check)
    with pytest.raises(
        HookError, match=r"tinygraft_conformance_suites of the plugin returned \[3\], not a list .* a class"
    ):
        here.conformance_suites("TOY")
    with pytest.raises(HookError, match="tinygraft_doctor_checks of the plugin returned DoctorCheck"):
        here.doctor_checks()


def test_commands_of_plugins(register, capsys):
    """A plugin's command has its arguments, its help and its exit code; ours stay ours."""

    def add(commands):
        def arguments(parser):
            parser.add_argument("name")

        def run(arguments):
            print(f"hello {arguments.name}")
            return 7

        commands.add(Command(name="greet", help="say hello", add_arguments=arguments, run=run))
        commands.add(Command(name="settings", run=lambda arguments: 9))

    register(cli=add)
    assert main(["greet", "you"]) == 7
    said = capsys.readouterr()
    assert said.out == "hello you\n"
    assert said.err == "a hook plugin adds the command settings, which tinygraft has: it is left out\n"
    assert main(["settings"]) == 0
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet" not in capsys.readouterr().out


def test_a_command_plugin_that_fails_is_left_out(register, capsys):
    """A plugin whose commands cannot be added is said on stderr, and the others have theirs."""

    def broken(commands):
        commands.add(Command(name="half", run=lambda arguments: 0))
        commands.add(Command(name="two words", run=lambda arguments: 0))

    register(cli=broken)
    register(cli=lambda commands: commands.add(Command(name="fine", run=lambda arguments: None)))
    assert main(["fine"]) == 0
    assert capsys.readouterr().err == (
        "tinygraft_cli of the plugin raised ValueError: 'two words' cannot be the name of a command; use letters, "
        "digits and dashes; its commands are left out\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["half"])
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("command", "sentence"),
    [(3, "a command is a Command, got a int"), (Command(name="x", run=print), "there is a command x already")],
)
def test_commands_that_cannot_be(command, sentence):
    """The registry of commands refuses what is none, and a name that is taken."""
    registry = hooks.CommandRegistry()
    registry.add(Command(name="x", run=print))
    with pytest.raises(ValueError, match=sentence):
        registry.add(command)


@pytest.mark.slow
def test_the_kit_runs_contributed_suites(fakes):
    """`conformance` runs the classes that plugins add for a device, and counts their tests as such."""
    fakes.add_hooks(
        """
        class Colour:
            def test_name(self, backend):
                assert backend.name == "PYTHON"

            def test_blue(self):
                assert self.device == "blue"

        @hookimpl
        def tinygraft_conformance_suites(spec):
            return [Colour] if spec.name == "PYTHON" else None
        """
    )
    path = os.pathsep.join([str(fakes.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    report = fakes.folder / "report.json"
    command = "-m", "tinygraft", "conformance", "--device", "PYTHON", "--level", "own", "--json", str(report)
    environment = os.environ | {"PYTHONPATH": path, "TINYGRAFT_CACHE": str(fakes.folder / "cache")}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120, cwd=fakes.folder
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(report.read_text())["devices"][0]["levels"] == {"own": {"passed": 1, "failed": 1}}
    assert "TestColour" in done.stdout
    assert not list((fakes.folder / "cache").glob("conformance-*")), "a part of the kit is not the kit"


def test_a_whole_run_of_the_kit_is_stored(tmp_path, setting):
    """What all levels counted is kept for doctor, and what only some did is not."""
    from tinygraft.conformance.extra import store_run
    from tinygraft.conformance.levels import LEVELS

    setting(config.CACHEDIR, str(tmp_path))
    counts = {level: Counter(passed=2) for level in LEVELS} | {"own": Counter(failed=1)}
    store_run("TOY:1", {"provided_by": "tinygraft-toy 1.0"}, counts)
    note = json.loads((tmp_path / "conformance-TOY.json").read_text())
    assert (note["distribution"], note["version"], note["api"]) == ("tinygraft-toy", "1.0", "0.1")
    assert note["counts"] == {"passed": 12, "failed": 1}
    store_run("DOLL", {"provided_by": "tinygraft-doll 1.0"}, {"spec": Counter(passed=1)})
    assert [file.name for file in tmp_path.iterdir()] == ["conformance-TOY.json"]
