"""Two processes that make one key in one folder: the files that are left are of one of them, whoever comes when."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prover.commands.exits import Exit
from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.making import OTHERS_MAKE
from prover.groth16.store import KeyStore

SHAPE = post_shape(ProofKind.WINDOW_POST, 2048)
#: `cuzk keys setup` over a toy circuit; before a key is written whole, it says so and waits for a word
MAKER = """
import sys
from types import SimpleNamespace
from prover import cli
from prover.circuits.synthesis import Circuit
from prover.groth16 import store
from tests.groth16 import toy

matrices = toy.matrices(toy.chain(6, 1)[0])
Circuit.load = staticmethod(lambda *_: SimpleNamespace(matrices=matrices))
write = store._write

def slowly(path, *more, **options):
    if path.suffix == ".params":
        print("writing", file=sys.stderr, flush=True)
        sys.stdin.readline()
    write(path, *more, **options)

store._write = slowly
sys.exit(cli.main(["keys", "setup", "window-post", "--out", sys.argv[1]]))
"""


@contextmanager
def maker(folder: Path, kept: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(folder)], text=True, env=os.environ | {"XDG_CACHE_HOME": str(kept)},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], *words: str) -> None:
    """Read what it says, up to the first line with one of the words."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if any(word in line for word in words):
            return
    raise AssertionError("".join(said))


def finish(process: subprocess.Popen[str]) -> int:
    """Let it write, and wait for its end; its exit status."""
    process.communicate("\n", timeout=60)
    return process.returncode


def assert_one_key(folder: Path) -> None:
    keys = KeyStore(folder)
    opened = keys.open(SHAPE.key_name)  # compares the files of the key
    assert keys.find(SHAPE.key_name).local and keys.find(SHAPE.key_name).digest == opened.digest()
    assert {path.suffix for path in folder.iterdir()} == {".params", ".vk", ".meta", ".local", ".checked"}


def test_the_second_waits_and_finds_the_key_of_the_first(tmp_path: Path, kept: Path) -> None:
    with maker(tmp_path, kept) as first:
        read_until(first, "writing")
        with maker(tmp_path, kept) as second:
            read_until(second, "writing", OTHERS_MAKE)
            assert finish(first) == Exit.OK
            assert finish(second) == Exit.KEYS
    assert_one_key(tmp_path)


def test_the_second_takes_over_from_a_first_that_is_killed(tmp_path: Path, kept: Path) -> None:
    with maker(tmp_path, kept) as first:
        read_until(first, "writing")
        with maker(tmp_path, kept) as second:
            read_until(second, "writing", OTHERS_MAKE)
            first.kill()
            first.wait(60)
            assert finish(second) == Exit.OK
    for path in tmp_path.glob(".*"):  # of the one that was killed
        path.unlink()
    assert_one_key(tmp_path)
