"""Ctrl-C before, around and after a verb: one line and exit code 130, or the work is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRESS = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
press = lambda *args, **more: os.kill(os.getpid(), signal.SIGINT)

class Loading:
    def find_spec(self, name, *more):
        if name == WHERE:
            press()

sys.meta_path.insert(0, Loading())
if WHERE == "the exit":
    atexit.register(press)
from tuplet.cli import main
if WHERE == "the making of commands":
    import typer.main
    typer.main.get_command = press
if WHERE == "the parsing":
    import typer.core
    typer.core.TyperGroup.parse_args = press
main()
"""


def pressed(where: str, folder: Path, *words: str) -> tuple[int, str, str]:
    """`tuplet WORDS` with a Ctrl-C at `where`: exit code, standard output, standard error."""
    code = PRESS.replace("WHERE", repr(where))
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "the edges.csv"
    path.write_text("a,b\nb,c\nc,a\n")
    return path


@pytest.mark.parametrize(
    "where",
    ["typer", "numpy", "tuplet.cli.report", "the making of commands", "the parsing", "tuplet.io.convert", "pyarrow"],
)
def test_ctrl_c_at_any_moment_is_one_line_and_exit_code_130(where: str, edges: Path) -> None:
    assert pressed(where, edges.parent, "convert", edges.name, "g") == (130, "", "interrupted\n")
    assert [path.name for path in edges.parent.iterdir()] == [edges.name]


def test_ctrl_c_after_the_verb_changes_nothing(edges: Path) -> None:
    code, out, err = pressed("the exit", edges.parent, "convert", edges.name, "g", "-q")
    assert code == 0 and "interrupted" not in err and "Traceback" not in err
    assert (edges.parent / "g" / "meta.json").is_file() and out


def test_a_job_in_the_background_does_not_hear_ctrl_c(edges: Path) -> None:
    code = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "from tuplet.cli import main; os.kill(os.getpid(), signal.SIGINT); main()"
    done = subprocess.run([sys.executable, "-c", code, "info", edges.name], cwd=edges.parent, capture_output=True)
    assert done.returncode == 0


def test_a_crash_of_ray_at_the_exit_is_no_other_code(tmp_path: Path) -> None:
    """After Ctrl-C Ray's library was seen to end Python with a segmentation fault."""
    code = PRESS.replace("WHERE", "'the parsing'").replace(
        "main()\n", "import types; sys.modules['ray'] = types.ModuleType('ray'); atexit.register(os.abort); main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
