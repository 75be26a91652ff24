"""`cuzk up`: everything that a page with a proving prover needs, on one machine, until Ctrl-C.

State lies under ./var (CUZK_HOME names another folder): the database, keys, caches, logs, and generated secrets (0600).
With DATABASE_URL that database is used instead of the embedded one; it must let us migrate.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psycopg

from prover.errors import CuzkError
from prover.filecoin.shapes import KIB, POST_KINDS, ProofKind, post_shape
from prover.folders import unwritable
from prover.groth16.making import making

from .errors import DataFolderUnwritable, StackFailed
from .passwords import password
from .platforms import VARIABLE, platform
from .postgres import EmbeddedPostgres
from .roles import DAEMON, DATABASE, OWNER, SITE, make_database, make_roles
from .running import ROOT, home_folder
from .supervise import Service, run

SAMPLE = ROOT / "cuzk_web" / "submission" / "samples" / "window-post.json"
PORT = 8000
WEB_TIMEOUT = 60.0  # seconds until the page answers
DRAIN = 30.0  # seconds that a proof which has begun gets to end, at the first Ctrl-C
LOOK = 0.3  # seconds
WEB_REST = 60.0  # seconds that a web process which keeps on ending is left alone: proving goes on without a page
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Urls:
    """The database, as each of us reaches it."""

    owner: str
    prover: str
    web: str


@dataclass(slots=True)
class Stack:
    """What was started, in order; it is stopped the other way round."""

    home: Path
    postgres: EmbeddedPostgres | None = None
    keys: list[Service] = field(default_factory=list)
    announced: dict[str, contextlib.ExitStack] = field(default_factory=dict)  # the keys that jobs wait for
    web: Service | None = None
    prover: Service | None = None
    stops: int = 0  # signals while it stops

    # -- folders and environments ----------------------------------------------------------------------------------

    @property
    def secrets(self) -> Path:
        """Generated passwords."""
        return self.home / "secrets"

    def log(self, name: str) -> Path:
        """The log file of a part."""
        return self.home / "log" / f"{name}.log"

    def environment(self, url: str) -> dict[str, str]:
        """What our children get; nothing secret of ours is on any command line."""
        kept = {name: value for name, value in os.environ.items() if name != "CUZK_SECRET_KEY"}
        password(self.secrets, "django")
        return kept | {
            "DATABASE_URL": url, "CUZK_SECRET_KEY_FILE": str(self.secrets / "django"),
            "DJANGO_SETTINGS_MODULE": "cuzk_web.settings", "FIL_PROOFS_PARAMETER_CACHE": str(self.home / "keys"),
            "XDG_CACHE_HOME": str(self.home / "cache"), "CUZK_DAEMON__SPOOL": str(self.home / "spool"),
            "CUZK_SRS__MAKE_MISSING": "true",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH", "")])),
        }  # fmt: skip

    # -- the parts -------------------------------------------------------------------------------------------------

    def database(self) -> Urls:
        """Start the embedded server, or use what DATABASE_URL names."""
        url = os.environ.get("DATABASE_URL")
        if url:
            return Urls(
                url, os.environ.get("CUZK_PROVER_DATABASE_URL", url), os.environ.get("CUZK_WEB_DATABASE_URL", url)
            )
        self.postgres = EmbeddedPostgres(self.home)
        self.postgres.start()
        with self.postgres.connect() as connection:
            make_roles(connection, lambda role: password(self.secrets, role))
            make_database(connection)
        return Urls(*(self.postgres.url(role, DATABASE) for role in (OWNER, DAEMON, SITE)))

    def migrate(self, url: str) -> bool:
        """Bring the tables up to date and see to the administrator; whether that one was made now."""
        self._manage(url, "migrate", "--verbosity", "0")
        file = self.secrets / "admin"
        said = self._manage(url, "ensure_admin", "--password-file", str(file))
        return "is in" in said

    def _manage(self, url: str, *words: str) -> str:
        command = [sys.executable, "-m", "django", *words]
        return run(f"manage.py {words[0]}", command, self.log("manage"), self.environment(url))

    def make_keys(self) -> None:
        """Begin to make the PoSts' keys if they are missing, one circuit after the other. Those of PoRep and SnapDeals
        take longer: the prover makes them when it first needs them."""
        folder = self.home / "keys"
        for kind in POST_KINDS:
            name = post_shape(kind, 2 * KIB).key_name
            if not (folder / f"{name}.params").exists():
                announced = self.announced.setdefault(f"keys-{kind.value}", contextlib.ExitStack())
                announced.enter_context(making(folder, name))
                words = ["keys", "setup", kind.value, "--size", "2KiB", "--out", str(folder)]
                self.keys.append(self._service(f"keys-{kind.value}", cuzk(words), self.environment("")))
        if self.keys:
            self.keys[0].start()

    def keys_made(self) -> bool:
        """Whether the first of the keys that are being made is finished; then the next begins."""
        status = self.keys[0].status()
        if status is None:
            return False
        done = self.keys.pop(0)
        self.announced.pop(done.name).close()
        if status and not self._has_key(done):  # else somebody else made it at the same time
            raise StackFailed(f"{done.name} failed:\n{done.tail()}")
        if self.keys:
            self.keys[0].start()
        return True

    def _has_key(self, made: Service) -> bool:
        name = post_shape(ProofKind(made.name.removeprefix("keys-")), 2 * KIB).key_name
        return (self.home / "keys" / f"{name}.params").exists()

    def start_web(self, url: str) -> str:
        """Serve the site; returns its URL when it answers."""
        port = free_port(int(os.environ.get("CUZK_PORT", PORT)))
        words = [sys.executable, "-m", "django", "serve", "--port", str(port)]
        self.web = Service("web", words, self.log("web"), self.environment(url), rest_s=WEB_REST)
        self.web.start()
        page = f"http://127.0.0.1:{port}/"
        deadline = time.monotonic() + WEB_TIMEOUT
        while not answers(f"{page}livez"):
            if self.web.status() is not None or time.monotonic() > deadline:
                raise StackFailed(f"the web process does not answer:\n{self.web.tail()}")
            time.sleep(0.1)
        return page

    def start_prover(self, url: str) -> None:
        """Start the daemon, on a GPU where there is one."""
        environment = self.environment(url) | {VARIABLE: platform(say)}
        self.prover = self._service("prover", cuzk(["daemon"]), environment, grace_s=DRAIN)
        self.prover.start()

    def submit_sample(self, url: str) -> None:
        """One request, when the database never had any, so that the page has something to show; no more than that."""
        try:
            with psycopg.connect(url) as connection:
                if connection.execute("SELECT 1 FROM job LIMIT 1").fetchone() is not None:
                    return
            run("submit", cuzk(["submit", str(SAMPLE)]), self.log("submit"), self.environment(url))
        except (StackFailed, OSError, psycopg.Error) as error:
            say(f"{SAMPLE.name} could not be submitted, all else goes on: {error}")
        else:
            say(f"submitted {SAMPLE.name}; more samples are on the page 'Submit'")

    def _service(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], grace_s: float = 10.0
    ) -> Service:
        return Service(name, command, self.log(name), environment, grace_s=grace_s)

    # -- until it ends ---------------------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Keep everything alive; ends by KeyboardInterrupt, or StackFailed."""
        while True:
            time.sleep(LOOK)
            if self.postgres is not None and not self.postgres.running:
                say(f"Postgres ended by itself; starting it again, see {self.postgres.log}")
                self.postgres.restart()  # those who use it wait for it
            for service in (self.web, self.prover):
                if service is not None and service.keep_alive():
                    say(f"the {service.name} ended by itself and was started again; see {service.log}")
            if self.keys and self.keys_made():
                say("keys made" if not self.keys else f"making {self.keys[0].name}")

    def stop(self) -> None:
        """Stop everything: the prover first, while page and database still serve it."""
        if self.prover is not None and self.prover.status() is None:
            say("stopping (a second Ctrl-C does not wait for the proof that has begun)")
            self.prover.ask_to_stop()
            deadline = time.monotonic() + DRAIN
            while self.prover.status() is None and time.monotonic() < deadline and not self.stops:
                time.sleep(0.1)
        for service in (*self.keys[:1], self.prover, self.web):
            if service is not None:
                service.stop()
        if self.postgres is not None:
            self.postgres.stop()


def main() -> int:
    """Bring everything up and watch it; returns the exit code. Raises CuzkError when something does not start."""
    stack = Stack(make_home())
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores it on purpose
            signal.signal(number, interrupt)
    with only_one(stack.home):
        try:
            with contextlib.suppress(KeyboardInterrupt):
                bring_up(stack)
                stack.supervise()
        finally:
            for number in SIGNALS:
                signal.signal(number, lambda *_: count(stack))
            stack.stop()
            say("stopped")
    return 0


def bring_up(stack: Stack) -> None:
    """Start all parts; the keys are made beside the rest."""
    started = time.monotonic()
    stack.make_keys()
    if stack.keys:
        say(f"making keys for {', '.join(key.name.removeprefix('keys-') for key in stack.keys)} (once)")
    urls = stack.database()
    new_admin = stack.migrate(urls.owner)
    page = stack.start_web(urls.web)
    say(f"page      {page}  ({time.monotonic() - started:.1f} s)")
    say_login(stack.secrets / "admin", new_admin)
    while any(key.name == "keys-window-post" for key in stack.keys):
        if not stack.keys_made():
            time.sleep(LOOK)
    stack.start_prover(urls.prover)
    stack.submit_sample(urls.prover)
    say(f"logs      {stack.home / 'log'}")
    say("Ctrl-C stops everything")


def say_login(file: Path, new: bool) -> None:
    """The password once, afterwards where it is."""
    if new:
        say(f"log in    admin / {file.read_text().strip()}")
    say(f"          (the password is kept in {file})")


def make_home() -> Path:
    """The home folder, with its folders. Others may pass through it: the database's user does when we are root.

    Raises DataFolderUnwritable.
    """
    home = home_folder().absolute()
    reason = unwritable(home, mode=0o711)
    if reason is not None:
        raise DataFolderUnwritable(reason, field="CUZK_HOME")
    for name, mode in (("log", 0o700), ("keys", 0o755), ("cache", 0o700), ("spool", 0o700), ("secrets", 0o700)):
        (home / name).mkdir(mode=mode, exist_ok=True)
    return home


@contextlib.contextmanager
def only_one(home: Path) -> Iterator[None]:
    """One stack a home. Raises StackFailed when another runs."""
    with (home / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackFailed(f"a stack runs already in {home}") from None
        yield


def cuzk(words: Sequence[str]) -> list[str]:
    """Our own command line."""
    return [sys.executable, "-m", "prover", *words]


def free_port(wanted: int) -> int:
    """The port that is wanted, or a free one when somebody has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(url: str) -> bool:
    """Whether a GET gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Every signal is as Ctrl-C, also where a shell that started us in the background ignores that."""
    raise KeyboardInterrupt


def count(stack: Stack) -> None:
    """A signal while everything stops: it asks for haste."""
    stack.stops += 1


def say(text: str) -> None:
    """A line for who runs it."""
    print(f"cuzk: {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CuzkError as error:
        sys.exit(f"cuzk: error: {error} [{error.code}]")
