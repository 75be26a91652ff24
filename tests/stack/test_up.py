"""`cuzk up` from nothing: a page, an administrator, keys, a verified proof; stopped, killed, started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from prover.stack.passwords import password
from prover.stack.roles import OWNER
from prover.stack.up import answers
from tests.postgres import ROOT, open_folder
from tests.stack.test_postgres import gone

pytestmark = [pytest.mark.postgres, pytest.mark.acceptance, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder / "var"


class Up:
    """A running stack and what it printed."""

    def __init__(self, home: Path) -> None:
        env = {name: value for name, value in os.environ.items() if name not in ("CUZK_SECRET_KEY", "DATABASE_URL")}
        command = [sys.executable, "-u", "-m", "prover", "up"]
        self.popen = subprocess.Popen(
            command, cwd=ROOT, env=env | {"CUZK_HOME": str(home), "CUZK_PORT": "0"}, stdout=subprocess.PIPE, text=True
        )
        self.said = ""
        while "Ctrl-C stops" not in self.said:
            line = self.popen.stdout.readline()
            if not line:
                self.popen.communicate()
                raise AssertionError(self.said)
            self.said += line
        self.page = re.search(r"http://127\.0\.0\.1:\d+/", self.said)[0]
        self.children = [child.pid for child in psutil.Process(self.popen.pid).children(recursive=True)]

    def end(self, number: signal.Signals) -> int:
        self.popen.send_signal(number)
        self.popen.stdout.read()
        return self.popen.wait(120)


@contextmanager
def up(home: Path) -> Iterator[Up]:
    stack = Up(home)
    try:
        yield stack
    finally:
        if stack.popen.poll() is None:
            stack.end(signal.SIGINT)
        stack.popen.stdout.close()


def jobs(home: Path) -> list[tuple[str, int]]:
    port = re.search(r"port=(\d+)", " ".join(psutil.Process(server(home)).cmdline()))[1]
    with psycopg.connect(f"postgresql://{OWNER}:{password(home / 'secrets', OWNER)}@127.0.0.1:{port}/cuzk") as owner:
        return owner.execute(
            "SELECT j.state, length(d.proof) FROM job j LEFT JOIN delivery d ON d.job_id = j.id"
        ).fetchall()


def server(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def test_from_nothing_to_a_verified_proof_and_back(home: Path) -> None:
    with up(home) as stack:
        login = urllib.request.urlopen(stack.page)
        assert login.status == 200 and "login" in login.url
        assert "log in    admin / " in stack.said
        deadline = time.monotonic() + 600
        while jobs(home) != [("done", 192)]:
            assert time.monotonic() < deadline, jobs(home)
            time.sleep(1)
        assert {oct(path.stat().st_mode & 0o777) for path in (home / "secrets").iterdir()} == {"0o600"}
        assert len(stack.children) >= 3
        assert stack.end(signal.SIGINT) == 0
        assert all(gone(pid) for pid in stack.children)


def test_second_start_keeps_the_data_and_makes_nothing_again(home: Path) -> None:
    with up(home) as stack:
        assert jobs(home) == [("done", 192)]
        assert "making keys for window" not in stack.said and "log in    admin" not in stack.said
        with subprocess.Popen(
            [sys.executable, "-m", "prover", "up"], cwd=ROOT, env=os.environ | {"CUZK_HOME": str(home)},
            stderr=subprocess.PIPE, text=True,
        ) as second:  # fmt: skip
            assert "runs already" in second.communicate()[1]
        assert stack.end(signal.SIGTERM) == 0
        assert all(gone(pid) for pid in stack.children)


def test_killed_it_leaves_nothing_and_a_dead_part_comes_back(home: Path) -> None:
    with up(home) as stack:
        web = next(pid for pid in stack.children if "serve" in psutil.Process(pid).cmdline())
        for victim, sign in ((web, "web ended by itself"), (server(home), "Postgres ended by itself")):
            os.kill(victim, signal.SIGKILL)
            while sign not in stack.popen.stdout.readline():
                pass
        deadline = time.monotonic() + 60
        while not answers(f"{stack.page}readyz"):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        children = [child.pid for child in psutil.Process(stack.popen.pid).children(recursive=True)]
        stack.end(signal.SIGKILL)
        assert all(gone(pid, 40) for pid in children)
