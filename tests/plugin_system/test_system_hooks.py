"""Hooks: there are twelve, each observer is told, a mistake is refused, and nothing is paid without a plugin."""

import subprocess
import sys
import warnings

import pytest

import hooked
from hooked import large, values
from tinygraft import Context, Device, Tensor, config, events, hooks
from tinygraft.engine import compile, plan
from tinygraft.errors import DeviceError, DeviceUnavailable, HookError
from tinygraft.hooks import (
    CodegenPass,
    hookimpl,
)
from tinygraft.hooks.manager import OBSERVERS, here
from tinygraft.hooks.specs import new_manager
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Kernel

TWELVE = {
    "tinygraft_on_device": ["event"],
    "tinygraft_on_schedule": ["event"],
    "tinygraft_on_render": ["event"],
    "tinygraft_on_compile": ["event"],
    "tinygraft_on_launch": ["event"],
    "tinygraft_on_memory": ["event"],
    "tinygraft_codegen_passes": ["request"],
    "tinygraft_profiler": ["session"],
    "tinygraft_doctor_checks": [],
    "tinygraft_conformance_suites": ["spec"],
    "tinygraft_cli": ["commands"],
    "tinygraft_choose_default": ["request"],
}


def test_there_are_twelve():
    """The hooks and their arguments are those of the contract; each has one object at most."""
    manager = new_manager()
    specs = {name: caller.spec for name, caller in vars(manager.hook).items() if name.startswith("tinygraft_")}
    assert {name: list(spec.argnames) for name, spec in specs.items()} == TWELVE
    assert [name for name, spec in specs.items() if spec.opts.get("firstresult")] == ["tinygraft_choose_default"]
    assert set(OBSERVERS) == {name for name in TWELVE if name.startswith("tinygraft_on_")}


# Observers


def test_each_observer_is_told(register):
    """A computation tells the observers of schedules, sources, compilations, launches and memory what they are for."""
    seen = []
    kinds = ("schedule", "render", "compile", "launch", "memory")
    register(**{f"on_{kind}": lambda event: seen.append(event) for kind in kinds})
    with Context(CACHELEVEL=0):
        assert values(1, 2, 3, 4, 5, 6, 7) == [9, 11, 13, 15, 17, 19, 21]
    by_kind = {}
    for event in seen:
        by_kind.setdefault(type(event).__name__, []).append(event)
    (schedule,) = by_kind["ScheduleEvent"]
    assert (schedule.devices, schedule.kernels, schedule.copies) == (("PYTHON",), 1, 0)
    (rendered,) = by_kind["RenderEvent"]
    assert (rendered.device, rendered.name) == ("PYTHON", "E_7")
    assert len(rendered.text) > 10
    (compiled,) = by_kind["CompileEvent"]
    assert (compiled.name, compiled.device, compiled.cached) == ("E_7", "PYTHON", False)
    assert compiled.bytes > 0
    (launch,) = by_kind["LaunchEvent"]
    assert (launch.name, launch.bytes, launch.seconds > 0) == ("E_7", 56, True)
    assert {(event.action, event.device, event.bytes) for event in by_kind["MemoryEvent"]} >= {("copy", "PYTHON", 28)}


def test_memory_is_told_when_it_is_taken_and_given_back(register):
    """A size that nothing is kept of is taken from the device, and goes back there by empty_cache."""
    seen = []
    register(on_memory=seen.append)
    t = large(123_457)
    taken = [event for event in seen if event.action == "alloc" and event.bytes >= 4 * 123_457]
    assert taken
    assert taken[0].used >= taken[0].bytes
    del t
    Device.empty_cache("PYTHON")
    assert [event.bytes for event in seen if event.action == "free" and event.bytes == taken[0].bytes]


def test_an_observer_may_compute(register):
    """What an observer of memory does with tensors is told too, and does not hang."""
    seen = []

    def told(event):
        seen.append(event)
        if len(seen) == 1:
            large(98_765)

    register(on_memory=told)
    large(87_654)
    assert {event.bytes for event in seen} >= {4 * 98_765, 4 * 87_654}


def test_devices_are_told(register, fakes):
    """A device is loaded, opened and closed; one that cannot be is told with its reason."""
    seen = []
    register(on_device=lambda event: seen.append((event.action, event.name, event.detail)))
    fakes.add("TOY", count=2)
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    fakes.add("STUCK", "class Backend(NullBackend):\n    def __init__(self, *_):\n        raise OSError('in use')\n")
    registry = fakes.registry()
    assert registry["TOY:1"].name == "TOY:1"
    for name in ("WRECK", "STUCK"):
        with pytest.raises(DeviceUnavailable):
            registry[name]
    registry.close()
    assert seen == [
        ("loaded", "TOY", "a device of a test"),
        ("opened", "TOY:1", "found"),
        ("failed", "WRECK", "OSError: wrecked"),
        ("loaded", "STUCK", "a device of a test"),
        ("failed", "STUCK", "OSError: in use"),
        ("closed", "TOY:1", ""),
    ]


def test_a_cached_kernel_is_told_as_such(register):
    """A kernel that the disk has is told as compiled without a compiler: cached, in no time."""
    seen = []
    register(on_compile=seen.append)
    with Context(DEV="CPU"):
        for _ in range(2):
            (Tensor([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]) * 3 + 11).tolist()
            compile.clear()
            plan.clear()
    assert [event.cached for event in seen] == [False, True]
    assert seen[1].seconds == 0.0


def test_an_observer_changes_nothing(register):
    """Whoever listens to launches does not make graphs be scheduled again: that is for who looks at stages."""
    schedules, launches = [], []
    values(1, 2, 3, 4)
    register(on_schedule=schedules.append, on_launch=launches.append)
    values(5, 6, 7, 8)
    assert (len(schedules), len(launches)) == (0, 1)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_an_observer_that_raises_is_dropped(register, error):
    """An observer that raises or exits is dropped with one warning that names it; the others and the program go on."""
    seen = []

    def broken(event):
        raise error("out of ink")

    register(on_launch=broken)
    register(on_launch=seen.append)
    sentence = (
        f"the observer tinygraft_on_launch of the plugin raised {error.__name__}: out of ink when notified of a "
        "LaunchEvent; it is dropped for events of that kind"
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert values(1, 2) == [4, 6]
        assert values(3, 4) == [8, 10]
    assert [(str(warning.message), warning.filename) for warning in said] == [(sentence, hooked.__file__)]
    assert len(seen) == 2


def test_an_observer_may_leave_its_argument_out(register):
    """pluggy's rule holds: a function takes as many arguments as it wants."""
    seen = []
    register(on_launch=lambda: seen.append(1))
    values(1, 2)
    assert seen == [1]


def test_trace_prints_hook_calls(register, setting, capsys):
    """TINYGRAFT_TRACE_PLUGINS=1 prints each hook that is called, and whose it is."""
    register(on_launch=lambda event: None, codegen_passes=lambda request: None)
    setting(config.TINYGRAFT_TRACE_PLUGINS, 1)
    values(1, 2, 3, 4, 5, 6, 7, 8, 9)
    said = capsys.readouterr().err
    assert "tinygraft: tinygraft_on_launch of the plugin is notified of LaunchEvent(name=" in said
    assert "tinygraft: tinygraft_codegen_passes of the plugin is called" in said


# Registration


def test_undo_forgets_a_plugin(register):
    """What register returned undoes it, once; the flags that core reads are as before."""
    seen = []
    undo = register(on_launch=seen.append, codegen_passes=lambda request: None, choose_default=lambda request: None)
    assert (events.on_launch, here.has_passes, here.has_choice) == (True, True, True)
    undo()
    undo()
    assert (events.on_launch, here.has_passes, here.has_choice) == (False, False, False)
    values(1, 2)
    assert seen == []


class Unmarked:
    """A plugin whose author forgot the decorator."""

    def tinygraft_on_launch(self, event):
        """Never called."""


class Wrapper:
    """A plugin that wants to wrap a call."""

    @hookimpl(wrapper=True)
    def tinygraft_on_launch(self, event):
        """Never called."""
        return (yield)


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        (Unmarked(), "the hooks of Unmarked cannot be registered: its tinygraft_on_launch is not marked with "
         "@tinygraft.hooks.hookimpl"),
        (Wrapper(), "the hooks of Wrapper cannot be registered: its tinygraft_on_launch is a wrapper, and each hook "
         "is called by itself"),
        (object(), "the hooks of object cannot be registered: it implements no hook; mark its functions with"),
        (type("Typo", (), {"tinygraft_on_lunch": hookimpl(lambda event: None)}),
         "the hooks of Typo cannot be registered: there is no hook tinygraft_on_lunch; the hooks are tinygraft_c"),
        (type("More", (), {"tinygraft_on_launch": staticmethod(hookimpl(lambda event, more: None))})(),
         "the hooks of More cannot be registered: Plugin 'More' for hook 'tinygraft_on_launch'"),
    ],
    ids=["unmarked", "wrapper", "empty", "typo", "argument"],
)  # fmt: skip
def test_what_cannot_be_registered(installed_hooks, plugin, sentence):
    """A plugin with a mistake is refused as a whole, with the mistake."""
    for _ in range(2):  # nothing of it stays
        with pytest.raises(HookError) as caught:
            hooks.register(plugin)
        assert str(caught.value).startswith(sentence)


def test_twice_is_refused(register):
    """The same object cannot be registered twice; another of its class can."""
    plugin = type("Plugin", (), {"tinygraft_on_launch": staticmethod(hookimpl(lambda event: None))})
    first, second = plugin(), plugin()
    undo = [hooks.register(first), hooks.register(second)]
    try:
        with pytest.raises(HookError, match="Plugin is registered already"):
            hooks.register(first)
    finally:
        for one in undo:
            one()


# The price


def test_nothing_is_paid_when_nobody_listens(installed_hooks, monkeypatch):
    """Without a plugin no event is made, nobody is told and nobody is asked: not one line of hook code runs."""
    for kind in events.KINDS:
        monkeypatch.setattr(kind, "__init__", lambda *_, **__: pytest.fail("an event was made"))
    monkeypatch.setattr(events, "notify", lambda event: pytest.fail("an observer was notified"))
    for name in ("ask", "passes", "register", "choose_default"):
        monkeypatch.setattr(type(here), name, lambda *_: pytest.fail("somebody was asked"))
    with Context(CACHELEVEL=0):
        assert values(*range(15))[0] == 15  # through every stage
        assert values(*range(15))[0] == 15  # from its plan
    Device.empty_cache()
    assert [flag for flag in events.KINDS.values() if getattr(events, flag)] == []
    assert (here.has_passes, here.has_choice) == (False, False)


def test_pluggy_is_imported_for_a_plugin_only():
    """A program without hook plugins never imports pluggy; asking for hookimpl does."""
    code = (
        "import sys\nfrom tinygraft import Tensor, hooks\nimport tinygraft.plugin\n"
        "(Tensor([1, 2], device='PYTHON') * 2).tolist()\nprint('pluggy' in sys.modules)\n"
        "hooks.hookimpl\nprint('pluggy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]


def test_the_plugin_module_has_what_authors_need():
    """tinygraft.plugin re-exports every event, request and the decorator; what is not there is an AttributeError."""
    import tinygraft.plugin

    for name in set(hooks.__all__) - {"here", "load_none", "profile", "register"}:
        assert getattr(tinygraft.plugin, name) is getattr(hooks, name)
        assert name in tinygraft.plugin.__all__
    with pytest.raises(AttributeError, match="module 'tinygraft.hooks' has no attribute 'hookimp'"):
        hooks.hookimp  # noqa: B018


def test_events_and_requests_are_frozen():
    """What a hook is given cannot be changed by it."""
    event = hooks.LaunchEvent(name="x", device="TOY", seconds=1.0)
    with pytest.raises(AttributeError):
        event.name = "y"
    request = hooks.PassRequest(stage="kernel", target=Device["PYTHON"].target)
    with pytest.raises(AttributeError):
        request.stage = "transformed"


def test_a_device_error_is_still_one(register, fakes):
    """A hook that asks for a device which is not there raises what anybody would get."""
    fakes.add("TOY")
    register(choose_default=lambda request: "a b")
    with pytest.raises(DeviceError, match="the plugin chooses a b: 'a b' is not the name of a device"):
        fakes.registry().DEFAULT  # noqa: B018


def test_a_kernel_is_what_a_pass_gets(register):
    """At stage "kernel" the graph is that of the scheduler: a Kernel's sink, whose loops have no kind yet."""
    got = []
    register(
        codegen_passes=lambda request: [
            CodegenPass(id=request.stage, version=1, run=lambda sink, target: got.append(Kernel(sink)) or sink)
        ]
    )
    values(*range(16))
    assert [kernel.sink.op for kernel in got] == [Ops.SINK, Ops.SINK]
