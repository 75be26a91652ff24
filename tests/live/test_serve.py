"""`manage.py serve`: one port for pages, files and sockets; it says when it cannot have it, and ends when asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message

import pytest

from cuzk_web.security import POLICY
from prover.stack.roles import OWNER, SITE
from tests.browser import Site, serving
from tests.postgres import ROOT, Database
from tests.systemd import Systemd, systemd  # noqa: F401 - a fixture

pytestmark = pytest.mark.postgres


def fetch(url: str, **headers: str) -> tuple[int, Message, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_every_answer_has_the_policy_and_pages_have_nothing_inline(served: Site) -> None:
    for path in ("", "static/js/live.js", "no/such/page"):
        _, headers, _ = fetch(served.url + path)
        assert headers["Content-Security-Policy"] == POLICY
    _, _, page = fetch(served.url)
    text = page.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|<style|\sstyle=|\son\w+=", text)
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY


def test_files_are_asked_for_again_and_not_sent_again(served: Site) -> None:
    status, headers, body = fetch(served.url + "static/js/live.js")
    assert status == 200 and body == (ROOT / "static/js/live.js").read_bytes()
    assert headers["Cache-Control"] == "max-age=0, public"
    assert headers.get_content_type() == "text/javascript"
    assert fetch(served.url + "static/js/live.js", **{"If-Modified-Since": headers["Last-Modified"]})[0] == 304


def test_a_port_that_is_taken_is_an_error_that_names_it(served: Site) -> None:
    env = os.environ | {"DATABASE_URL": served.database.url(), "CUZK_SECRET_KEY": "x" * 50}
    command = [sys.executable, "manage.py", "serve", "--port", str(served.port)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{served.port}" in done.stderr


@contextmanager
def news(database: Database) -> Iterator[None]:
    """The log is said to have something new, several times a second."""
    stop = threading.Event()

    def notify() -> None:
        with database.connect(SITE) as connection:
            while not stop.wait(0.2):
                connection.execute("NOTIFY cuzk")

    thread = threading.Thread(target=notify)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_systemd_is_told_of_the_loop_that_follows_the_log(database: Database, systemd: Systemd) -> None:  # noqa: F811
    with serving(database, environment=systemd.environment(watchdog_s=1)) as site, news(database):
        systemd.expect("READY=1")
        systemd.expect("WATCHDOG=1")
        with database.connect(OWNER) as owner, owner.transaction():
            owner.execute("LOCK TABLE session")  # the hub stands until its patience ends; pages are answered
            assert systemd.quiet(1.0, settling_s=0.5)
            assert fetch(site.url + "livez")[0] == 200
        systemd.expect("WATCHDOG=1")
        assert site.stop() == 0
        assert systemd.expect("STOPPING=1")
