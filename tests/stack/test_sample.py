"""The sample that a new stack submits is a courtesy: when it cannot be, the stack goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.stack.up import Stack


def test_a_database_that_refuses_it_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Stack(tmp_path).submit_sample("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")
    assert "could not be submitted, all else goes on" in capsys.readouterr().out
