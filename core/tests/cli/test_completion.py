"""tinygraft completion: a shell completes commands and options by what it prints."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tinygraft.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the commands that the help lists is known to the script."""
    pytest.importorskip("shtab", reason="shtab is not installed: it is in the group test")
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = [line.split()[0] for line in capsys.readouterr().out.partition("commands:")[2].splitlines()
              if line.startswith("  ")]  # fmt: skip
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert len(listed) >= 8
    assert [name for name in listed if name not in script] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    """In a shell that has read the script, `tinygraft de` is completed to devices, and `explain --` to options."""
    pytest.importorskip("shtab", reason="shtab is not installed: it is in the group test")
    main(["completion", "bash"])
    ask = """
shopt -s progcomp
completed() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    $(complete -p tinygraft | sed 's/.*-F \\([^ ]*\\).*/\\1/') tinygraft
    echo "${COMPREPLY[*]}"
}
completed tinygraft de
completed tinygraft tune --
"""
    said = subprocess.run(["bash", "-c", capsys.readouterr().out + ask], capture_output=True, text=True)
    first, second = said.stdout.splitlines()
    assert first.split() == ["devices"]
    assert "--help" in second.split()


def test_without_shtab_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """shtab is an extra."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == "completion needs shtab: pip install 'tinygraft[completion]'\n"
