"""Whether EXAMPLE works here: it needs a C compiler. Starts none."""

import os
import shlex
import shutil

from tinygraft.plugin import Probe


def find_compiler() -> list[str] | None:
    """The command of the C compiler: CC with its options, else the first of cc, gcc and clang that is on the PATH."""
    for command in [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]:
        try:
            words = shlex.split(command)
        except ValueError:  # a quote that does not end
            continue
        if words and shutil.which(words[0]):
            return words
    return None


def probe() -> Probe:
    """Usable where there is a C compiler; any number of ordinals, since all of them are the memory of the host."""
    command = find_compiler()
    if command is None:
        return Probe(ok=False, detail="no C compiler (CC, cc, gcc, clang) is on the PATH", hint="install gcc or clang")
    return Probe(ok=True, detail=f"C compiler {command[0]}", count=None)
