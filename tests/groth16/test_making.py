"""Who needs a key that is being made waits for it; a maker that dies lets go."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from prover.groth16.making import making, wait_until_made

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


def test_a_maker_that_is_killed_holds_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None and maker.stdout.readline() == "making\n"
        maker.send_signal(signal.SIGKILL)
        maker.wait(30)
    wait_until_made(tmp_path, NAME)
