"""A skip that is not listed fails the run, in one process or several; a listed one does not."""

import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = ("-p", "tests.skips", "-p", "tests.spread", "-p", "no:django", "-c", "/dev/null", "-q", "--durations=20")


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *PLUGINS, *options, f"--rootdir={folder}", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("reason", "code", "options"),
    [("needs the large vectors: x", 0, ()), ("not today", 1, ()), ("not today", 1, ("-n", "2"))],
)
def test_only_listed_skips_are_accepted(tmp_path: Path, reason: str, code: int, options: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    (tmp_path / "test_good.py").write_text("def test_good():\n    pass\n")
    made = run(tmp_path, *options)
    assert made.returncode == code, made.stdout + made.stderr
    assert ("SKIP NOT ACCEPTED" in made.stdout) == bool(code)
    assert made.stdout.count("test_it.py::test_it: not today") == code
