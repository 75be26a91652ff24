"""Tests that share something costly run in one process, the long ones first; the slowest are still listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import spread
from tests.postgres import ROOT

from .test_skips import run


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/e2e/test_killed.py::test_x[a::b]", "provers"),
        ("tests/cli/test_daemon.py::test_x", "provers"),
        ("tests/cli/test_status.py::test_x", "tests/cli/test_status.py"),
        ("tests/algebra/test_msm.py::TestX::test_y", "arrays"),
    ],
)
def test_the_unit_of_a_test(nodeid: str, name: str) -> None:
    assert spread.unit(nodeid) == name


def test_every_path_is_there() -> None:
    """A renamed folder would silently lose its place."""
    for path in [*(path for paths in spread.TOGETHER.values() for path in paths), *spread.LONG]:
        assert (ROOT / path).exists(), path


def test_a_module_stays_in_one_process_and_long_ones_start_first(tmp_path: Path) -> None:
    text = (
        "import os, pytest\n"
        "@pytest.mark.parametrize('n', range(6))\n"
        "def test_it(n, worker_id):\n"
        "    with open('{log}', 'a') as log:\n"
        "        log.write(f'{name} {{worker_id}}\\n')\n"
    )
    log = tmp_path / "log"
    for name in ("tests/web/test_a.py", "tests/web/test_b.py", "tests/web/test_c.py", "tests/e2e/test_d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(log=log, name=name))
    made = run(tmp_path, "-n", "2")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "slowest" in made.stdout and "24 passed" in made.stdout
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 24 and len({tuple(line) for line in lines}) == 4  # one process a module
    first: dict[str, str] = {}
    for name, worker in lines:
        first.setdefault(worker, name)
    assert len(first) == 2 and "tests/e2e/test_d.py" in first.values()
