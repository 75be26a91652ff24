"""Local keys that are made on first use: a process of its own, whose progress and failure are seen."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.making import OTHERS_MAKE, making
from prover.groth16.store import KeyStore
from prover.pipeline import local_keys
from prover.pipeline.key_loading import make_missing
from prover.pipeline.local_keys import KeyNotMade, make_local_key
from prover.states import Entity, Holding, legal

DATA = Path(__file__).parents[1] / "data" / "2k"
SHAPE = post_shape(ProofKind.WINDOW_POST, 2048)


class Said:
    """A report that keeps what it is told, and whether each move is legal."""

    def __init__(self) -> None:
        self.moves: list[tuple[Holding, dict[str, Any]]] = []

    def __call__(self, name: str, state: Holding, detail: Any, *, reason: str | None = None) -> None:
        assert name == f"key:{SHAPE.key_name}@setup"
        before = self.moves[-1][0] if self.moves else Holding.ABSENT
        assert legal(Entity.HOLDING, before, state)
        self.moves.append((state, {**detail, "reason": reason}))


def test_percentages_that_a_command_says_are_progress() -> None:
    script = f"""
import sys
print("cuzk: {OTHERS_MAKE} this key: waiting", file=sys.stderr)
for share in (0, 7, 7, 100):
    print(f"cuzk: setting up: {{share:3d}}%, 2 s", file=sys.stderr)
sys.exit("over")
"""
    shares: list[float] = []
    waits: list[bool] = []
    status, said = local_keys._run([sys.executable, "-c", script], shares.append, lambda: waits.append(True))
    assert (status, shares, waits) == (1, [0, 0.07, 1], [True])
    assert said.endswith("100%, 2 s over")


def test_a_key_is_made_once_and_its_phase_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, said, runs = KeyStore(tmp_path), Said(), []

    def run(command: list[str], progress: Any, waits: Any) -> tuple[int, str]:
        runs.append(command[1:])
        for share in (0.25, 0.5):
            progress(share)
        shutil.copy(DATA / "tiny.params", tmp_path / f"{SHAPE.key_name}.params")
        return 0, ""

    monkeypatch.setattr(local_keys, "_run", run)
    for _ in range(2):
        make_missing(keys, SHAPE, said)
    assert runs == [["-m", "prover", "keys", "setup", "window-post", "--size", "2KiB", "--out", str(tmp_path)]]
    assert [state for state, _ in said.moves] == ["loading", "loading", "loading", "ready"]
    assert [detail.get("progress") for _, detail in said.moves] == [None, 0.25, 0.5, None]
    assert said.moves[-1][1]["bytes"] == (DATA / "tiny.params").stat().st_size


def test_a_key_that_another_process_makes_is_waited_for_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found none and began; the second one's set-up says that it waits, and is refused afterwards."""
    keys, said = KeyStore(tmp_path), Said()

    def run(command: list[str], progress: Any, waits: Any) -> tuple[int, str]:
        waits()
        shutil.copy(DATA / "tiny.params", tmp_path / f"{SHAPE.key_name}.params")
        return 3, "it is there already"

    monkeypatch.setattr(local_keys, "_run", run)
    make_local_key(keys, SHAPE, said)
    assert [state for state, _ in said.moves] == ["loading", "loading", "ready"]
    names = [detail["name"].partition("keys ")[2] for _, detail in said.moves]
    assert names == ["being made", "being made by another process", "made"]


def test_a_key_that_is_being_made_already_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, said = KeyStore(tmp_path), Said()
    monkeypatch.setattr(local_keys, "_run", lambda *_: pytest.fail("a second maker"))
    waiter = threading.Thread(target=make_missing, args=(keys, SHAPE, said))
    with making(tmp_path, SHAPE.key_name):
        waiter.start()
        while not said.moves:
            waiter.join(0.01)
        shutil.copy(DATA / "tiny.params", tmp_path / f"{SHAPE.key_name}.params")
    waiter.join(30)
    names = [detail["name"].partition("keys ")[2] for _, detail in said.moves]
    assert names == ["being made by another process", "made"]


def test_a_failure_is_told_with_what_the_process_said(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("no folder")
    said = Said()
    with pytest.raises(KeyNotMade, match=r"window-post 2KiB: .*keys") as caught:
        make_local_key(KeyStore(tmp_path / "keys"), SHAPE, said)
    assert caught.value.retryable
    assert [state for state, _ in said.moves] == ["loading", "failed"]
    assert said.moves[-1][1]["reason"] == "key_not_made"
