"""The embedded Postgres: one data folder, one server that listens on loopback and stops with us.

Layout of `home`: ``data`` (0700, owned by whom the server runs as), ``postgres.log``, ``secrets`` (passwords, 0600).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg

from . import binaries as programs
from .errors import DataFolderForeign, DataFolderInUse, DataFolderVersion, PostgresFailed
from .passwords import password
from .processes import User, kill_group, spawn, stop

START_TIMEOUT = 60.0  # seconds; includes recovery after a crash
STOP_TIMEOUT = 30.0  # seconds, until the server is killed
SUPERUSER = "postgres"

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
#: for tests that do not pull the plug
FAST = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}


class EmbeddedPostgres:
    """A server over ``home/data``, set up on first start."""

    def __init__(
        self, home: Path, *, folder: Path | None = None, durable: bool = True, port: int | None = None
    ) -> None:
        """`folder` holds the programs (default: the wheel's); `port` is fixed when given, else a free one."""
        self.home = home.absolute()
        self.home.mkdir(parents=True, exist_ok=True)
        self.data = _reachable(self.home) / "data"
        self.user = User.unprivileged(self.data.stat().st_uid if self.data.exists() else None)
        self.binaries = programs.find(folder, self.user)
        self.settings = DURABLE if durable else FAST
        self.fixed_port = port
        self.port = port or 0
        self.process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def secrets(self) -> Path:
        """The folder of the generated passwords."""
        return self.home / "secrets"

    def url(self, role: str = SUPERUSER, database: str = "postgres") -> str:
        """A connection URL with the role's generated password."""
        return f"postgresql://{role}:{password(self.secrets, role)}@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        """Whether the server that was started has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> Path:
        """What the server prints."""
        return self.home / "postgres.log"

    def start(self) -> None:
        """Set up the data folder when there is none, and return when the server answers.

        Raises DataFolderVersion, DataFolderInUse, DataFolderForeign (nothing was touched) or PostgresFailed.
        """
        self._check_untouched()
        self._take_lock()
        try:
            if not (self.data / "PG_VERSION").exists():
                self._initialise()
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop cleanly: sessions are ended, a checkpoint is written. May be called twice."""
        if self.process is not None:
            stop(self.process, signal.SIGINT, STOP_TIMEOUT)  # SIGINT is Postgres' fast shutdown
            self.process = None
        self._release_lock()

    def restart(self) -> None:
        """Start again, on the same port, a server that ended by itself."""
        self.stop()
        self.fixed_port = self.port
        self.start()

    def kill(self) -> None:
        """End as a power cut would: for tests of what happens when the database goes away."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                kill_group(self.process)
            self.process.wait()
            self.process = None
        self._release_lock()

    # -- before anything is touched --------------------------------------------------------------------------------

    def _check_untouched(self) -> None:
        version = self.data / "PG_VERSION"
        if version.exists():
            found = version.read_text().strip()
            if found != self.binaries.major:
                text = f"{self.data} belongs to Postgres {found}, these programs are {self.binaries.version}"
                raise DataFolderVersion(f"{text}; it was left untouched (pg_upgrade or dump and restore)")
        elif self.data.exists() and any(self.data.iterdir()):
            raise DataFolderForeign(f"{self.data} is not empty and no Postgres data folder; it was left untouched")
        owner = _postmaster(self.data)
        if owner is not None:
            raise DataFolderInUse(f"process {owner} serves {self.data}; it was left untouched")

    def _take_lock(self) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.data.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise DataFolderInUse(f"another process holds {self.data}; it was left untouched") from error
        self._lock = descriptor

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- set up ----------------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.user.own(self.data)
        with tempfile.NamedTemporaryFile("w", dir=self.data.parent) as file:  # mode 0600
            file.write(password(self.secrets, SUPERUSER) + "\n")
            file.flush()
            self.user.own(Path(file.name))
            self._run_initdb(file.name)

    def _run_initdb(self, password_file: str) -> None:
        command = [
            str(self.binaries.folder / "initdb"), "--pgdata", str(self.data), "--username", SUPERUSER,
            "--pwfile", password_file, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8",
            "--data-checksums", "--no-instructions",
            *([] if self.settings is DURABLE else ["--no-sync"]),
        ]  # fmt: skip
        done = self.user.run(command)
        if done.returncode != 0:
            raise PostgresFailed(f"initdb: {done.stderr.strip()}")

    def _launch(self) -> None:
        for _ in range(5):  # another process may take the free port between the look and the bind
            self.port = self.fixed_port or _free_port()
            with open(self.log, "ab") as log:
                self.process = spawn(
                    self._command(), user=self.user, log=log, cwd=Path("/"), on_parent_death=signal.SIGINT
                )
            if self._wait():
                return
            self.process.wait()
        raise PostgresFailed(f"Postgres ended at once; see {self.log}")

    def _command(self) -> list[str]:
        settings = self.settings | {
            "listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "",
            "password_encryption": "scram-sha-256", "max_connections": "200", "shared_buffers": "128MB",
            "log_timezone": "UTC", "timezone": "UTC", "log_line_prefix": "%m [%p] %u@%d ",
        }  # fmt: skip
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries.folder / "postgres"), "-D", str(self.data), *options]

    def _wait(self) -> bool:
        """Whether the server came to answer; False when it ended."""
        deadline = time.monotonic() + START_TIMEOUT
        assert self.process is not None
        while self.process.poll() is None:
            if _ready(self.data, self.process.pid):
                return True
            if time.monotonic() > deadline:
                kill_group(self.process)
                raise PostgresFailed(f"Postgres did not answer in {START_TIMEOUT:.0f} s; see {self.log}")
            time.sleep(0.02)
        return False

    def connect(self, role: str = SUPERUSER, database: str = "postgres") -> psycopg.Connection:
        """A connection in autocommit."""
        return psycopg.connect(self.url(role, database), autocommit=True)


def _reachable(home: Path) -> Path:
    """`home/postgres`; a link to a folder under /var/lib when the server's user may not enter `home`."""
    folder = home / "postgres"
    if not folder.exists():
        user = User.unprivileged()
        if user.may("-x", home):
            folder.mkdir(mode=0o755)
        else:
            elsewhere = programs.SHARED / hashlib.sha256(str(home).encode()).hexdigest()[:16]
            elsewhere.mkdir(mode=0o755, parents=True, exist_ok=True)
            folder.symlink_to(elsewhere)
    return folder.resolve()


def _postmaster_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _postmaster(data: Path) -> int | None:
    """The process that serves `data` now, if any: a server works in its data folder."""
    lines = _postmaster_lines(data)
    if not lines or not lines[0].strip().lstrip("-").isdigit():
        return None
    pid = abs(int(lines[0]))
    try:
        return pid if os.readlink(f"/proc/{pid}/cwd") == str(data.resolve()) else None
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else pid
    except PermissionError:  # of another user
        return pid


def _ready(data: Path, pid: int) -> bool:
    """Postgres writes its state in the eighth line of postmaster.pid."""
    lines = _postmaster_lines(data)
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
