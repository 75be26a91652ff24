"""A skip that is not listed fails the run; a listed one does not."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("reason", "code"), [("needs the large vectors: x", 0), ("not today", 1)])
def test_only_listed_skips_are_accepted(tmp_path: Path, reason: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:django", "-c", "/dev/null", "-q"]
    run = subprocess.run([*command, f"--rootdir={tmp_path}", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert run.returncode == code, run.stdout + run.stderr
    assert ("SKIP NOT ACCEPTED" in run.stdout) == bool(code)
