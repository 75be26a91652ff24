"""Who needs a key that is being made waits for it; a maker that dies lets go."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from prover.groth16.making import is_being_made, making, wait_until_made

NAME = "v28-key"
MAKER = """
import sys
from pathlib import Path
from prover.groth16.making import making
with making(Path(sys.argv[1]), "v28-key"):
    print("making", flush=True)
    sys.stdin.read()
"""


def test_nobody_waits_for_a_key_that_nobody_makes(tmp_path: Path) -> None:
    wait_until_made(tmp_path, NAME)
    assert list(tmp_path.iterdir()) == []
    with making(tmp_path, NAME):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_wait_ends_when_all_makers_are_done(tmp_path: Path) -> None:
    waiter = threading.Thread(target=wait_until_made, args=(tmp_path, NAME))
    with making(tmp_path, NAME):
        with making(tmp_path, NAME):  # `up` and its `keys setup`
            waiter.start()
        waiter.join(0.2)
        assert waiter.is_alive()
    waiter.join(30)
    assert not waiter.is_alive()


@pytest.mark.parametrize("look", [wait_until_made, is_being_made])
def test_a_maker_that_is_killed_holds_nobody_and_leaves_nothing(
    look: Callable[[Path, str], bool | None], tmp_path: Path
) -> None:
    """Its file would have two who look at the same time take each other for makers."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None and maker.stdout.readline() == "making\n"
        assert is_being_made(tmp_path, NAME)
        maker.send_signal(signal.SIGKILL)
        maker.wait(30)
    assert len(list(tmp_path.iterdir())) == 1
    assert not look(tmp_path, NAME)
    assert list(tmp_path.iterdir()) == []


def test_a_maker_says_so_though_who_looked_has_removed_the_file(tmp_path: Path) -> None:
    """It came while the other one held what a killed maker had left."""
    begun, done = threading.Event(), threading.Event()

    def make() -> None:
        with making(tmp_path, NAME):
            begun.set()
            done.wait(30)

    maker, left = threading.Thread(target=make), tmp_path / f"{NAME}.making"
    with left.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        maker.start()
        assert not begun.wait(0.1)
        left.unlink()
    assert begun.wait(30) and is_being_made(tmp_path, NAME)
    done.set()
    maker.join(30)
    assert list(tmp_path.iterdir()) == []
