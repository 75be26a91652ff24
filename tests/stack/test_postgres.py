"""The launcher: sets up, starts fast again, refuses what is not its own, and leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from prover.stack import binaries
from prover.stack.errors import DataFolderForeign, DataFolderInUse, DataFolderVersion, PostgresFailed, PostgresNotFound
from prover.stack.postgres import EmbeddedPostgres
from tests.postgres import ROOT, open_folder

pytestmark = pytest.mark.postgres
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture
def home() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def fast(home: Path, folder: Path | None = None) -> EmbeddedPostgres:
    """A server that does not wait for the disk."""
    return EmbeddedPostgres(home, folder=folder, durable=False)


def modes(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_second_start_keeps_data_and_first_leaves_no_process(home: Path) -> None:
    server = fast(home)
    with server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        pid = server.process.pid
    assert gone(pid)
    with server, server.connect() as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


def test_durable_closed_and_not_as_root(home: Path) -> None:
    with EmbeddedPostgres(home) as server, server.connect() as connection:
        show = {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in (
            "fsync", "synchronous_commit", "full_page_writes", "data_checksums", "listen_addresses",
            "unix_socket_directories",
        )}  # fmt: skip
        assert list(show.values()) == ["on", "on", "on", "on", "127.0.0.1", ""]
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
        assert rules == [("scram-sha-256",)]
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert "Uid:\t0" not in status
    assert modes(server.data) == "0o700"
    assert {modes(path) for path in server.secrets.iterdir()} == {"0o600"}


def test_no_password_no_entry(home: Path) -> None:
    with fast(home) as server, pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres", passfile="/dev/null")


def test_folder_in_use_is_refused(home: Path) -> None:
    with fast(home) as server:
        with pytest.raises(DataFolderInUse, match=str(server.process.pid)):
            fast(home).start()
        with server.connect() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_folder_of_another_major_version_is_refused_untouched(home: Path) -> None:
    with fast(home) as server:
        data = server.data
    (data / "PG_VERSION").write_text("9\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*"))
    with pytest.raises(DataFolderVersion, match="belongs to Postgres 9"):
        fast(home).start()
    assert before == sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*"))


def test_foreign_folder_is_refused_untouched(home: Path) -> None:
    data = fast(home).data
    data.mkdir(parents=True)
    (data / "thesis.txt").write_text("not a database")
    with pytest.raises(DataFolderForeign):
        fast(home).start()
    assert [path.name for path in data.iterdir()] == ["thesis.txt"]


def test_missing_programs_are_named(home: Path) -> None:
    with pytest.raises(PostgresNotFound, match=str(home)):
        fast(home, home)


def test_damaged_folder_says_where_the_log_is(home: Path) -> None:
    with fast(home) as server:
        data = server.data
    (data / "global" / "pg_control").unlink()
    with pytest.raises(PostgresFailed, match=r"postgres\.log"):
        fast(home).start()


def test_crash_recovery(home: Path) -> None:
    server = fast(home)
    server.start()
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    server.kill()
    with server, server.connect() as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


PARENT = """
    import sys, time
    from pathlib import Path
    from prover.stack.postgres import EmbeddedPostgres
    server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
    server.start()
    print(server.process.pid, flush=True)
    time.sleep(600)
"""


def test_killed_parent_leaves_no_server(home: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(home)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)
    with fast(home):
        pass


@pytest.mark.parametrize("folder", [None, *DEBIAN], ids=str)
def test_runs_the_programs_it_is_given(home: Path, folder: Path | None) -> None:
    """Those of the wheel (or their copy, when they lie in a closed folder), and Debian's."""
    with fast(home, folder or fast(home).binaries.folder) as server, server.connect() as connection:
        assert str(connection.info.server_version // 10000) == server.binaries.major


def test_named_programs_that_the_server_may_not_reach(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = binaries.find().folder
    monkeypatch.setattr(binaries.User, "may", lambda self, flag, path: False)
    with pytest.raises(PostgresNotFound, match=f"may not reach {named}"):
        fast(home, named)


def test_closed_home_and_closed_programs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a checkout in /root: data and programs go where the server's user reaches them; no mode changes."""
    shared, closed = home / "shared", home / "closed"
    monkeypatch.setattr(binaries, "SHARED", shared)
    closed.mkdir(mode=0o700)
    programs = binaries.find()
    monkeypatch.setattr(binaries.User, "may", lambda self, flag, path: False)
    with fast(closed / "var") as server, server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.binaries.folder.is_relative_to(shared)
        assert server.binaries.version == programs.version
        assert server.data.is_relative_to(shared)
        assert (closed / "var" / "postgres").is_symlink()
    assert modes(closed) == "0o700"
