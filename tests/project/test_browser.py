"""Browser tests are never skipped: without a browser a run ends at once and names what to install."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.postgres import ROOT


def run(*tests: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    env = os.environ | {"BROWSER": "no-such-browser"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


def test_a_run_with_browser_tests_ends_before_the_first() -> None:
    ended = run("tests/pages/test_account.py", "tests/project/test_skips.py")
    assert ended.returncode == 4
    assert "install `chromium`, or set BROWSER" in ended.stdout + ended.stderr
    assert "passed" not in ended.stdout


def test_a_run_without_needs_none() -> None:
    assert run("tests/project/test_skips.py").returncode == 0
