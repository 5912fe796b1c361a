"""The table of methods: what it names exists, is bound as it says, and is imported when it is first asked for."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

from tinygraft import Tensor
from tinygraft.tensor.methods import EAGER, THEMES, load_all
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import ALSO, OTHERWISE, either_spelling

KINDS = {
    "methods": "function",
    "properties": "property",
    "classmethods": "classmethod",
    "staticmethods": "staticmethod",
}


def run(code: str) -> str:
    """What a fresh process prints."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.module)
def test_a_theme_gives_what_its_row_says(theme) -> None:
    """Each name is a member of Tensor, of the kind of its column, and has a docstring where it is public."""
    load_all(Tensor)
    for name, kind in theme.names().items():
        member = vars(Tensor)[name]
        assert type(member).__name__ == KINDS[kind]
        assert name.startswith("_") or inspect.getdoc(getattr(member, "__func__", member)), name


def test_no_name_has_two_themes() -> None:
    """A name is bound once, and hides nothing of the base class."""
    count = Counter(name for theme in THEMES for name in theme.names())
    assert [name for name, times in count.items() if times > 1] == []
    own = {name for name in vars(TensorBase) if not name.startswith("__")}
    assert own & set(count) == set()


def test_the_class_is_flat() -> None:
    """No theme is a base: Tensor has one, with the hooks; complex numbers add four."""
    assert Tensor.__mro__ == (Tensor, TensorBase, object)
    assert len(type(Tensor([1j])).__mro__) <= 10


def test_a_rare_theme_is_imported_when_it_is_asked_for() -> None:
    """By a tensor, by the class, and for a property that is written; dir() knows it before."""
    code = (
        "import sys\nfrom tinygraft import Tensor\nhas = lambda name: f'tinygraft.tensor.ops.{name}' in sys.modules\n"
        "print(has('linalg.solve'), 'inv' in dir(Tensor))\nTensor.eye(2).inv\nprint(has('linalg.solve'))\n"
        "print(has('signal.windows'), Tensor.window_hann.__name__, has('signal.windows'))\n"
        "t = Tensor([1j])\nt2 = Tensor([1.0]); t2.real = 3.0\nprint(has('math.complex_parts'), t2.tolist())"
    )
    assert run(code).splitlines() == ["False True", "True", "False window_hann True", "True [3.0]"]


def test_what_every_program_needs_is_there_at_once() -> None:
    """The themes of EAGER, and no others, are bound as the class is made."""
    assert set(EAGER) <= {theme.module for theme in THEMES}
    code = (
        "from tinygraft import Tensor\nprint(*sorted(n for n, m in vars(Tensor).items() if 'Late' in type(m).__name__))"
    )
    late = set(run(code).split())
    assert late == {name for theme in THEMES if theme.module not in EAGER for name in theme.names()}


def test_super_finds_a_late_method() -> None:
    """A subclass that overrides a method reaches the one of Tensor, which is not imported yet."""
    code = (
        "from tinygraft import Tensor\nclass Mine(Tensor):\n    def relu6(self): return super().relu6() + 1\n"
        "print(Mine([7.0]).relu6().tolist(), Tensor([7.0]).relu6().tolist())"
    )
    assert run(code) == "[7.0] [6.0]"


def test_what_a_user_puts_in_the_place_of_a_method_stays() -> None:
    """Also where its theme is imported later, for another method; so does a mock that saw what stood there before."""
    code = (
        "from unittest import mock\nfrom tinygraft import Tensor\n"
        "Tensor.inv = lambda self: 'mine'\nTensor.eye(2).det\nprint(Tensor.eye(2).inv())\n"
        "with mock.patch.object(Tensor, 'rfft', lambda self: 'mocked'):\n"
        "    Tensor.ones(2).fft\n    print(Tensor.ones(2).rfft())\nprint(Tensor.ones(2).rfft().shape)\n"
        "print(vars(Tensor)['window_hann'])"
    )
    wanted = ["mine", "mocked", "(2,)", "<window_hann of tinygraft.tensor.ops.signal.windows, to be imported>"]
    assert run(code).splitlines() == wanted


def test_what_stands_for_a_method_can_be_called_and_mocked() -> None:
    """Tools that read `vars(Tensor)` find what can be called; inspect shows the parameters of the constructor."""
    code = (
        "import inspect\nfrom unittest import mock\nfrom tinygraft import Tensor\n"
        "print(vars(Tensor)['relu6'](Tensor([7.0])).tolist())\n"
        "with mock.patch.object(Tensor, 'inv', autospec=True): Tensor([[2.0]]).inv()\n"
        "print(Tensor([[2.0]]).inv().tolist(), *inspect.signature(Tensor).parameters)"
    )
    assert run(code).splitlines() == ["[6.0]", "[[0.5]] data device dtype requires_grad"]


def test_a_theme_is_imported_once() -> None:
    """Where somebody forgets modules, as mock.patch.dict does, its classes are those of before."""
    code = (
        "import pickle, sys\nfrom unittest import mock\nfrom tinygraft import Tensor\n"
        "with mock.patch.dict(sys.modules, {'torch': None}):\n    z, relu = Tensor([1j]), Tensor.relu\n"
        "w = Tensor([2j])\nprint(type(z) is type(w), (z + w).tolist(), pickle.loads(pickle.dumps(relu)) is relu)"
    )
    assert run(code) == "True [3j] True"


def test_a_method_can_be_pickled() -> None:
    """By the module that it is in."""
    assert pickle.loads(pickle.dumps(Tensor.relu)) is Tensor.relu
    assert pickle.loads(pickle.dumps(Tensor.sum)) is Tensor.sum
    assert pickle.loads(pickle.dumps(Tensor.conv2d)) is Tensor.conv2d
    assert pickle.loads(pickle.dumps(Tensor.cov)) is Tensor.cov
    assert pickle.loads(pickle.dumps(Tensor.matmul)) is Tensor.matmul


def test_a_parameter_with_two_names_is_decorated() -> None:
    """A method with one of dim and axis, keepdim and keepdims takes the other; none is forgotten. A few say more."""
    load_all(Tensor)
    wrapper = either_spelling(lambda axis: axis).__code__
    plain = []
    for theme in THEMES:
        for name in theme.names():
            function = vars(import_module(f"tinygraft.tensor.{theme.module}"))[name]  # as it is written
            if name.startswith("_") or isinstance(vars(Tensor)[name], property):
                continue
            function = function.__wrapped__ if hasattr(function, "autocasts") else function
            declared = inspect.signature(function).parameters
            asks = any(own in declared and other not in declared for other, own in ALSO.items())
            asks |= any(method == name for method, _ in OTHERWISE)
            if asks != (function.__code__ is wrapper):
                plain.append(name)
    assert plain == []
