"""The frame of the conformance kit: who is tested, what is left out and why, what is counted, and every message."""

from __future__ import annotations

import marshal
from pathlib import Path
from typing import Any

import pytest

from kit_run import KitRun
from tinygraft.cli.main import main
from tinygraft.conformance.levels import ops_values
from tinygraft.dtype import dtypes
from tinygraft.uop.ops import Ops

pytestmark = pytest.mark.slow

MINE = """
class TestMine(Suite):
    device = "MINI"
"""  # a class of the kit without the kit's tests
ALL = """
class TestMine(DeviceConformance):
    device = "MINI"
    level = "own"
"""
LACKS = "self.target = replace(self.target, dtypes=frozenset(self.target.dtypes) - {dtypes.float64})"


def test_a_class_needs_a_device(kit: KitRun) -> None:
    """Without one, by attribute or option, nothing is run and the run fails."""
    done = kit("class TestMine(Suite):\n    def test_it(self): pass\n")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert 'TestMine has no device: write device = "NAME" in it, or give --tinygraft-device NAME' in done.text


def test_the_kit_itself_needs_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for by its name, the kit's own file says that it needs the option; met on the way it is passed over."""
    plain = ["-c", "/dev/null", "--noconftest", "-s", "-p", "tinygraft.conformance.plugin", "-p", "no:cacheprovider"]
    assert pytest.main([*plain, "--pyargs", "tinygraft.conformance"]) == pytest.ExitCode.USAGE_ERROR
    assert "tinygraft.conformance tests a device: give --tinygraft-device NAME" in "".join(capsys.readouterr())


def test_levels_are_chosen_by_option_and_by_class(kit: KitRun, install: Any) -> None:
    """A level runs alone; the class and the option both narrow; tests of one's own are a level of their own."""
    install("MINI")
    code = ALL.replace('    level = "own"\n', "") + "    def test_mine(self, device): assert device == 'MINI'\n"
    assert {*kit(code, "--tinygraft-level", "0").counts("MINI")} == {"spec"}
    assert {*kit(code, "--tinygraft-level", "spec,own").counts("MINI")} == {"spec", "own"}
    done = kit(code + '    level = "own"\n')
    assert done.counts("MINI") == {"own": {"passed": 1}}
    assert kit(code + '    level = "own"\n', "--tinygraft-level", "0").code == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("level", ["6", "nonsense", "0-9", "1-", "-1", "2-1x"])
def test_what_is_no_level_is_refused(kit: KitRun, level: str) -> None:
    """With the levels there are."""
    done = kit(MINE, f"--tinygraft-level={level}")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    known = "is no level of the kit; they are 0 spec, 1 render, 2 memory, 3 ops, 4 optional, 5 program, and own"
    assert f"--tinygraft-level: '{level}' {known}" in done.text


def test_an_override_keeps_its_level(kit: KitRun, install: Any) -> None:
    """A test of the kit that a class overrides is counted where it was."""
    install("MINI")
    code = ALL.replace('"own"', '"0"') + "    def test_the_names_agree(self): pass\n"
    assert kit(code, "-k", "names_agree").counts("MINI") == {"spec": {"passed": 1}}


def test_what_is_not_declared_is_not_asked(kit: KitRun, install: Any) -> None:
    """A test whose need the opened device does not declare is skipped, with the need, and counted by it."""
    install("MINI", init=LACKS)
    done = kit(MINE + """
    @needs("double", shared_memory=64)
    def test_both(self): assert False

    @needs("views")
    def test_views(self): pass

    @pytest.mark.parametrize("dtype", [__import__("tinygraft").dtypes.float64])
    def test_dtype(self, dtype): assert False
    """, "-rs")  # fmt: skip
    assert done.code == 0, done.text
    assert "MINI does not declare double, shared_memory>=64" in done.text
    assert "not declared: double (2), shared_memory>=64 (1)" in done.text
    assert done.counts("MINI") == {"own": {"n/a": 2, "passed": 1}}
    assert done.device("MINI")["missing"] == {"double": 2, "shared_memory>=64": 1}
    assert done.device("MINI")["tests"]["n/a"] == ["test_both", "test_dtype[dtype0]"]


def test_the_core_profile_cannot_be_declared_away(kit: KitRun, install: Any) -> None:
    """A device that does not declare float32 is asked all the same, and fails for it by name."""
    install("MINI", init="self.target = replace(self.target, dtypes=frozenset({dtypes.int32, dtypes.bool}))")
    code = ALL.replace('"own"', '"render,own"') + "    @needs('float32')\n    def test_floats(self): pass\n"
    done = kit(code, "-k", "profile_is_declared or test_floats")
    assert done.counts("MINI") == {"render": {"failed": 1}, "own": {"passed": 1}}
    assert "the Target lacks float, which every device has" in done.text


@pytest.mark.parametrize(("dtype", "result"), [("double", "refused"), ("half", "there")])
def test_a_dtype_is_there_or_refused(kit: KitRun, install: Any, dtype: str, result: str) -> None:
    """The same test holds what is declared to its values and what is not to UnsupportedError."""
    install("MINI", init=LACKS)
    done = kit(ALL.replace('"own"', '"memory"'), "-k", f"test_a_dtype_is_there_or_refused and {dtype}")
    assert done.counts("MINI") == {"memory": {"passed": 1}}, (result, done.text)


def test_undeclared_abilities_are_tried_on_request(kit: KitRun, install: Any) -> None:
    """With --tinygraft-probe-undeclared a test of what is not declared says whether it works; neither is a failure."""
    install("MINI", init=LACKS)
    done = kit(MINE + """
    @needs("double")
    def test_doubles(self, device):
        from tinygraft import Tensor
        x = Tensor([1.0, 2.0], device=device).cast("float64")
        assert (x + x).tolist() == [2.0, 4.0]

    @needs(grid_dims=1)
    def test_grid(self, target): assert target.grid_dims == 2, "not this one"

    @needs("matrix")
    def test_matrix(self): raise ValueError

    def test_target_is_restored(self, backend): assert "double" not in {d.name for d in backend.target.dtypes}
    """, "--tinygraft-probe-undeclared", "-rs")  # fmt: skip
    assert done.code == 0, done.text
    assert done.counts("MINI") == {"own": {"undeclared": 1, "lacking": 2, "passed": 1}}, done.text
    assert "double is not declared and works" in done.text
    assert "matrix is not declared and does not work either: ValueError" in done.text
    assert "works but undeclared: test_doubles" in done.text


def test_newer_tests_only_advise_an_older_plugin(kit: KitRun, install: Any) -> None:
    """What fails and came after the plugin's API is reported and no failure; what came with it fails."""
    install("MINI")
    code = (
        MINE
        + """
    @since(0, 2)
    def test_new(self): assert False
    @since(0, 2)
    def test_new_and_right(self): pass
    """
    )
    done = kit(code, "-rs")
    assert done.code == 0
    assert done.counts("MINI") == {"own": {"advice": 1, "passed": 1}}
    assert "advice: it came with plugin API 0.2, after the plugin, and fails: assert False" in done.text
    assert "fails, but is newer than the plugin: test_new" in done.text
    done = kit(code.replace("0, 2", "0, 1"))
    assert done.code == 1
    assert done.counts("MINI") == {"own": {"failed": 1, "passed": 1}}


ABSENT = 'return Probe(ok=False, detail="no such card in this machine", hint="buy one")'


def test_a_device_that_is_not_here_is_one_skip_for_each_level(kit: KitRun, install: Any) -> None:
    """Level spec is run; every other level says once why it is not."""
    install("MINI", probe=ABSENT)
    done = kit(ALL.replace('    level = "own"\n', ""), "-rs")
    assert done.code == 0, done.text
    counts = done.counts("MINI")
    assert counts["spec"]["passed"] == 10
    assert all(counts[level] == {"absent": 1} for level in ("render", "memory", "ops"))
    assert counts["spec"]["absent"] == 1
    assert "not here: MINI is installed (tinygraft-mini 1.0) but there is none here:" in done.text
    assert "no such card in this machine" in done.text


OFFLINE = """
def offline():
    backend = Backend("MINI", 0)
    return backend.target, backend.renderer
"""


def test_kernels_are_written_where_the_device_is_not(kit: KitRun, install: Any) -> None:
    """A plugin with `offline` has a suite on any machine: its kernels are rendered, in this process and in others."""
    install("MINI", probe=ABSENT, code=OFFLINE, offline="tinygraft_mini_device:offline")
    done = kit(ALL.replace('"own"', '"0-2"'))
    assert done.code == 0, done.text
    assert done.counts("MINI") == {
        "spec": {"passed": 10, "absent": 1}, "render": {"passed": 15, "absent": 1}, "memory": {"absent": 1},
    }  # fmt: skip
    assert (done.device("MINI")["provided_by"], "digest" in done.device("MINI")) == ("tinygraft-mini 1.0", False)
    done = kit(ALL.replace('"own"', '"0-2"'), "--tinygraft-require-device")
    assert done.counts("MINI")["render"] == {"passed": 15, "failed": 1}


def test_kernels_of_nothing_are_caught(kit: KitRun, install: Any) -> None:
    """`offline` gives a Target and a Renderer; a profile that is declared away is seen without the device."""
    install("MINI", probe=ABSENT, code="def offline(): return 1, 2\n", offline="tinygraft_mini_device:offline")
    done = kit(ALL.replace('"own"', '"0"'))
    assert done.device("MINI")["tests"]["failed"] == ["test_the_strings_resolve"]
    assert "tinygraft_mini_device:offline returned int, int and not a Target and a Renderer" in done.text
    install("MAXI", probe=ABSENT, offline="tinygraft_maxi_device:offline", code=OFFLINE.replace(
        "backend.target,", "replace(backend.target, dtypes=frozenset()),"))  # fmt: skip
    done = kit(ALL.replace('"own"', '"render"').replace("MINI", "MAXI"), "-k", "core_profile_is")
    assert "the Target lacks float, int, bool, which every device has" in done.text


def test_what_a_test_is_travels_as_plain_data(kit: KitRun, install: Any) -> None:
    """Reports of other processes, as of pytest-xdist, carry nothing but Python's own types."""
    seen: list[Any] = []

    class Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            seen.extend(value for name, value in report.user_properties if name == "tinygraft")

    install("MINI", init=LACKS)
    kit(MINE + """
    @needs("double")
    def test_skipped(self): pass
    @since(0, 2)
    def test_advice(self): assert False
    """, plugins=[Collector()])  # fmt: skip
    assert {found.get("kind") for found in seen} >= {"n/a", "advice"}
    assert {type(value) for found in seen for value in found.values()} <= {str, list, dict}
    assert marshal.loads(marshal.dumps(seen)) == seen


def test_a_device_that_computes_nothing_is_asked_for_its_kernels(kit: KitRun) -> None:
    """Its spec says so: levels spec and render are run, each of the others says once that it is not."""
    done = kit(ALL.replace("MINI", "NULL").replace('    level = "own"\n', ""), "-rs", "--tinygraft-require-device")
    assert done.code == 0, done.text
    counts = done.counts("NULL")
    assert counts["spec"]["passed"] == 9
    assert counts["render"]["passed"] > 20
    assert all(counts[level] == {"n/a": 1} for level in ("memory", "ops"))
    assert "NULL does not declare computes" in done.text


def test_a_device_that_must_be_here_fails(kit: KitRun, install: Any) -> None:
    """With --tinygraft-require-device each level that needs it is a failure with the probe's words."""
    install("MINI", probe=ABSENT)
    done = kit(ALL.replace('"own"', '"1-2"'), "--tinygraft-require-device")
    assert done.code == 1
    assert done.counts("MINI") == {"render": {"failed": 1}, "memory": {"failed": 1}}
    assert "no such card in this machine" in done.text


@pytest.mark.parametrize(("parts", "why"), [
    ({"probe": "raise OSError('libmini is not there')"}, "OSError: libmini is not there"),
    ({"top": "import no_such_library"}, "No module named 'no_such_library'"),
    ({"init": "raise RuntimeError('the card is on fire')"}, "RuntimeError: the card is on fire"),
    ({"api": "ApiRange((7, 0), (8, 0))"}, "it works with plugin API >=7.0,<8.0"),
])  # fmt: skip
def test_a_broken_device_fails(kit: KitRun, install: Any, parts: dict[str, str], why: str) -> None:
    """Only a device that is merely not here is skipped; one that is broken fails each level with its record."""
    install("MINI", **parts)
    done = kit(ALL.replace('"own"', '"1-2"'))
    assert done.code == 1
    assert done.counts("MINI") == {"render": {"failed": 1}, "memory": {"failed": 1}}
    assert why in done.text


def test_a_spec_that_cannot_be_had_fails(kit: KitRun, install: Any) -> None:
    """Level spec of a plugin that is broken says so in each test."""
    install("MINI", top="import no_such_library")
    done = kit(ALL.replace('"own"', '"spec"'), "-k", "fields")
    assert "MINI broken: ModuleNotFoundError: No module named 'no_such_library'" in done.text


def test_a_device_that_is_not_installed_fails(kit: KitRun) -> None:
    """With the sentence of the registry, level spec included."""
    done = kit(ALL.replace('"MINI"', '"NOSUCH"').replace('"own"', '"0-1"'))
    assert done.code == 1
    assert "no plugin provides a device NOSUCH" in done.text


def test_collecting_touches_no_device(kit: KitRun, install: Any) -> None:
    """A plugin whose spec ends the process is collected."""
    install("MINI", top="raise SystemExit('the spec was imported')")
    done = kit(ALL.replace('    level = "own"\n', ""), "--collect-only", "-q")
    assert done.code == 0
    assert "the spec was imported" not in done.text


def test_a_device_is_opened_once(kit: KitRun, install: Any) -> None:
    """Two classes and all their tests share one backend, which is that of the registry."""
    install("MINI", code="opened = []\n", init="opened.append(name)")
    code = MINE + "    def test_one(self, backend): import tinygraft_mini_device as m; assert m.opened == ['MINI']\n"
    done = kit(code + code.replace("TestMine", "TestTwo"))
    assert done.counts("MINI") == {"own": {"passed": 2}}, done.text


def test_the_report_says_what_was_tested(kit: KitRun, install: Any) -> None:
    """Versions of kit and plugin, its range, and a digest that follows what the device declares."""
    install("MINI")
    install("MAXI", init=LACKS)
    code = MINE + "    def test_one(self, backend): pass\n"
    mini, maxi = kit(code), kit(code.replace('"MINI"', '"MAXI"'))
    assert (mini.report["kit"], mini.report["api"]) == ("0.1.0", [0, 1])
    found = mini.device("MINI")
    assert (found["provided_by"], found["supports"]) == ("tinygraft-mini 1.0", [[0, 1], [0, 2]])
    assert found["backend"] == "tinygraft_mini_device:Backend"
    assert len(found["digest"]) == 12
    assert found["digest"] != maxi.device("MAXI")["digest"]
    assert f"kit 0.1.0, plugin API 0.1, tinygraft-mini 1.0, device {found['digest']}" in mini.text


def test_what_no_device_was_asked_is_said(kit: KitRun, install: Any) -> None:
    """A test that was skipped on each of several devices is named: nobody knows whether it is right."""
    install("MINI")
    install("MAXI")
    code = (
        MINE
        + """
    @needs("matrix")
    def test_never(self): assert False
    @needs("views")
    def test_ever(self): pass
    """
    )
    done = kit(code + code.replace("TestMine", "TestTwo").replace('"MINI"', '"MAXI"'))
    assert done.report["never_run"] == ["test_never"]
    assert "tests that no device here could run: test_never" in done.text
    assert kit(code).report["never_run"] == []


def test_a_plain_skip_and_an_error_are_counted(kit: KitRun, install: Any) -> None:
    """A test that skips by itself, and one whose fixture fails."""
    install("MINI")
    done = kit(
        MINE
        + """
    def test_skips(self): pytest.skip("for reasons")
    @pytest.fixture
    def bad(self): raise ValueError("bad")
    def test_bad(self, bad): pass
    """
    )
    assert done.counts("MINI") == {"own": {"skipped": 1, "failed": 1}}


XFAIL = '[[xfail]]\ntest = "test_bad"\nreason = "it is bad"\nissue = "https://example.org/1"\n'
BAD = MINE + "    def test_bad(self): assert False\n    def test_good(self): pass\n"


def test_a_known_defect_is_no_failure(kit: KitRun, install: Any) -> None:
    """It is counted by itself, and its reason is shown."""
    install("MINI")
    (kit.folder / "conformance.toml").write_text(XFAIL)
    done = kit(BAD, "-rx")
    assert done.code == 0
    assert done.counts("MINI") == {"own": {"xfailed": 1, "passed": 1}}
    assert "it is bad (https://example.org/1)" in done.text


def test_a_known_defect_that_is_gone_is_a_failure(kit: KitRun, install: Any) -> None:
    """So that the list does not go stale."""
    install("MINI")
    (kit.folder / "conformance.toml").write_text(XFAIL.replace("test_bad", "test_good"))
    done = kit(BAD, "-k", "good")
    assert done.code == 1
    assert "[XPASS(strict)] it is bad" in done.text


@pytest.mark.parametrize(("text", "message"), [
    (XFAIL.replace("test_bad", "test_bat"), "no test is called test_bat; did you mean test_bad?"),
    (XFAIL.replace("test_bad", "zzz"), "no test is called zzz; take it out"),
    (XFAIL + 'device = "OTHER"\n', "no test of OTHER is called test_bad; did you mean test_bad?"),
    (XFAIL.replace('reason = "it is bad"', 'reason = " "'), 'test_bad has no reason; write reason = "..." to say why'),
])  # fmt: skip
def test_a_wrong_list_of_defects_ends_the_run(kit: KitRun, install: Any, text: str, message: str) -> None:
    """A name that no test has, and an entry without a reason."""
    install("MINI")
    (kit.folder / "conformance.toml").write_text(text)
    done = kit(BAD)
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert message in done.text


def test_one_test_alone_needs_not_match_the_whole_list(kit: KitRun, install: Any) -> None:
    """`pytest file::Class::test` collects one test; that others of the list are not there is no fault."""
    install("MINI")
    (kit.folder / "conformance.toml").write_text(XFAIL)
    assert kit(BAD, only="TestMine::test_good").code == 0


def test_the_list_can_be_named(kit: KitRun, install: Any, tmp_path: Path) -> None:
    """--tinygraft-xfail takes another file than the nearest; one that is not there ends the run."""
    install("MINI")
    other = tmp_path / "other.toml"
    other.write_text(XFAIL)
    assert kit(BAD, f"--tinygraft-xfail={other}").code == 0
    done = kit(BAD, "--tinygraft-xfail=/no/such.toml")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert "/no/such.toml cannot be read" in done.text


def test_counts_need_a_folder(kit: KitRun, tmp_path: Path) -> None:
    """Where --tinygraft-json cannot be written, that is said before a test is run."""
    for file in (tmp_path / "none" / "counts.json", tmp_path):
        done = kit(BAD, f"--tinygraft-json={file}")
        assert done.code == pytest.ExitCode.USAGE_ERROR
        assert f"--tinygraft-json: {file} cannot be written: it is a folder, or there is none to put it in" in done.text


def test_fixtures_of_others_do_not_hide_the_kits(kit: KitRun, install: Any) -> None:
    """A plugin's tests may have a fixture named backend or device of their own."""
    install("MINI")
    names = ("opened", "record", "spec", "backend", "device", "target")
    others = "".join(f"@pytest.fixture\ndef {name}(): raise ValueError\n" for name in names)
    done = kit(others + MINE + f"    def test_it(self, {', '.join(names)}): assert device == 'MINI' == backend.name\n")
    assert done.code == 0, done.text


def test_tests_of_others_are_left_alone(kit: KitRun) -> None:
    """A test outside the kit's classes is run as ever and counted nowhere."""
    done = kit("def test_plain(): pass\nclass TestPlain:\n    def test_it(self): pass\n")
    assert done.code == 0
    assert done.report["devices"] == []


@pytest.mark.parametrize(("parts", "words", "code", "why"), [
    ({"probe": ABSENT}, ["--level", "0-1"], 0, ""),
    ({"probe": ABSENT}, ["--level", "0-1", "--require-device"], 2, "no such card in this machine"),
    ({"probe": "raise OSError('libmini is not there')"}, ["--level", "0"], 2, "OSError: libmini is not there"),
    ({"init": "raise RuntimeError('on fire')"}, ["--level", "0"], 2, "RuntimeError: on fire"),
    ({"init": LACKS}, ["--level", "memory", "-k", "is_there_or_refused", "--probe-undeclared"], 0, ""),
])  # fmt: skip
def test_the_command_says_how_it_ended(kit: KitRun, install: Any, capsys: pytest.CaptureFixture[str],
                                       parts: dict[str, str], words: list[str], code: int,
                                       why: str) -> None:  # fmt: skip
    """0 without a failure, also for a device that is merely not here; 2 with the registry's words for one that is
    broken, or must be here and is not."""
    install("MINI", **parts)
    assert main(["conformance", "--device", "mini", *words]) == code
    said = capsys.readouterr()
    assert why in said.err
    assert ("conformance of MINI" in said.out) is (code == 0)


def test_ctrl_c_ends_the_command_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 130, and not with the 2 of a device that cannot be tested."""
    monkeypatch.setattr(pytest, "main", lambda words, plugins: pytest.ExitCode.INTERRUPTED)
    assert main(["conformance", "--device", "PYTHON"]) == 130


def test_only_values_of_tests_that_are_left_are_computed(kit: KitRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all ops of a dtype there is a kernel of which a slow compiler needs many seconds; -k chooses three of them."""
    computed: set[Any] = set()
    plain = ops_values.outcomes

    def noted(backend: Any, jobs: Any) -> Any:
        """Note the jobs of the device under test, which is asked before PYTHON is."""
        computed.update(job.key for job in jobs)
        return plain(backend, jobs)

    monkeypatch.setattr(ops_values, "outcomes", noted)
    code = 'class TestIt(DeviceConformance):\n    device = "PYTHON"\n'
    done = kit(code, "-k", "test_elementwise and (TRUNC or SQRT) or test_constants and MUL-float32")
    assert done.counts("PYTHON") == {"ops": {"passed": 9}} and done.code == 0
    constants = {key[0] for key in computed if isinstance(key, tuple)}
    assert constants == {Ops.MUL} and computed >= {Ops.TRUNC, Ops.SQRT}
    assert {key for key in computed if not isinstance(key, tuple)} == {Ops.TRUNC, Ops.SQRT}
    computed.clear()
    assert kit(code, "-k", "(test_cast or test_bitcast) and int8-float32").counts("PYTHON") == {"ops": {"passed": 2}}
    assert computed == {dtypes.float32}
