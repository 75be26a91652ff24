"""A live page that cannot go on takes its process with it, so that whoever watches the process starts it anew."""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from cuzk_web.live.hub import HubFailed
from prover.stack.roles import OWNER, SITE
from prover.stack.supervise import Service
from tests.browser import Site as Running
from tests.browser import login, watched
from tests.postgres import ROOT, Database

pytestmark = pytest.mark.postgres


@pytest.fixture
def web(database: Database, people: None, tmp_path: Path) -> Iterator[Service]:
    """The web process as `cuzk up` runs it; it gets the same port when it is started again."""
    env = os.environ | {
        "DATABASE_URL": database.url(SITE), "DJANGO_SETTINGS_MODULE": "tests.settings",
        "CUZK_SECRET_KEY": secrets.token_urlsafe(), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "django", "serve", "--port", str(free_port())]
    service = Service("web", command, tmp_path / "web.log", env)
    service.start()
    yield service
    service.stop()


def free_port() -> int:
    from prover.stack.up import free_port

    return free_port(0)


def url(web: Service) -> str:
    """Where it serves, once it does."""
    eventually(lambda: "serving " in web.log.read_text())
    return re.findall(r"serving (\S+)", web.log.read_text())[-1]


def eventually(condition: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def poison(database: Database) -> None:
    """A row of the log that no version of this site has ever written."""
    session = "11111111-1111-4111-8111-111111111111"
    with database.connect(OWNER) as connection, connection.transaction():
        connection.execute(
            "INSERT INTO session (id, prover, state_at, times, detail, host, version, machine, head_seq, moved_seq,"
            " state, started_at) VALUES (%s, 'p', now(), '{}', '{}', '', '', '', 1, 0, 'starting', now())",
            [session],
        )
        connection.execute(
            "INSERT INTO transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, detail)"
            " VALUES (%s, 1, now(), 0, 'unheard of', 'x', '', 'y', '{}')",
            [session],
        )
        connection.execute("NOTIFY cuzk")


def test_the_process_ends_pages_are_told_and_the_next_one_serves_them(
    web: Service, database: Database, context: BrowserContext
) -> None:
    address = url(web)
    with watched(context, forgive="WebSocket|ERR_|503") as page:
        login(page, Running(address, database, None, ""), "vera")  # type: ignore[arg-type]  # needs its address alone
        page.wait_for_selector("#live[data-connection=open]")
        page.evaluate("""() => new Promise(ready => {
            const socket = new WebSocket(`ws://${location.host}/ws/live`);
            window.told = new Promise(done => { socket.onclose = event => done(event.code); });
            socket.onmessage = () => ready();
            socket.onopen = () => socket.send('{"since":{}}');
        })""")
        first = web.pid
        poison(database)
        assert page.evaluate("window.told") == 4012
        eventually(lambda: web.status() is not None)
        assert web.status() == 1
        log = web.log.read_text()
        assert f"[{HubFailed.code}]" in log and "'follow' died of ValueError: 'unheard of'" in log
        assert web.keep_alive() and web.pid != first
        eventually(lambda: ready(address))
        page.wait_for_selector("#live[data-connection=open]", timeout=40_000)
