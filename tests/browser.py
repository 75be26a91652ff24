"""A real browser against the real site: Daphne under the web's database role, Chromium by Playwright.

* `served`: the site of this test on a free port (a process of its own), over the fresh `database`.
* `people`: olga (operator), vera (viewer), sam (no role), ada (superuser); their password is PASSWORD.
* `page`: a page of a fresh profile; the test fails if it met an error, or broke the content security policy.
* `login(page, served, name)`; `screenshot(page, name)` writes to the folder CUZK_SCREENSHOTS, if that is set.

The browser is the program that BROWSER names, or the first of BROWSERS that is found; without one no test runs.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from django.contrib.auth.hashers import make_password
from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from prover.stack.roles import OWNER, SITE
from tests.postgres import ROOT, Database

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PASSWORD = "correct horse battery"
ROLES = {"olga": "operator", "vera": "viewer", "sam": None, "ada": None}
START_S = 30


@dataclass
class Site:
    """A running site."""

    url: str
    database: Database
    process: subprocess.Popen[str]
    secret: str
    lines: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(15)


def find_browser() -> str | None:
    """The browser's program; None when there is none."""
    named = os.environ.get("BROWSER")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def missing() -> str | None:
    """What keeps a browser from being driven here, and the package that helps; None when nothing does."""
    if find_browser() is None:
        return f"no browser ({os.environ.get('BROWSER') or ', '.join(BROWSERS)}): install `chromium`, or set BROWSER"
    driver, *_ = compute_driver_executable()
    ran = subprocess.run([driver, "--version"], capture_output=True, text=True)
    helps = "install `libatomic1`: " if "libatomic" in ran.stderr else ""
    return f"Playwright's driver does not start: {helps}{ran.stderr.strip()}" if ran.returncode else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without a browser the run ends here, not a quarter of an hour later."""
    drives = any("browser" in getattr(item, "fixturenames", ()) for item in session.items)
    if drives and not session.config.option.collectonly and (reason := missing()):
        pytest.exit(reason, pytest.ExitCode.USAGE_ERROR)


@contextmanager
def serving(
    database: Database, port: int = 0, secret: str | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Site]:  # fmt: skip
    """Run `manage.py serve` on a database, as the web's role; it must end well when it is asked to."""
    secret = secret or secrets.token_urlsafe()
    env = os.environ | {
        "DATABASE_URL": database.url(SITE), "DJANGO_SETTINGS_MODULE": "tests.settings",
        "CUZK_SECRET_KEY": secret, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1",
        **(environment or {}),
    }  # fmt: skip
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, env=env, **pipes)  # type: ignore[call-overload]
    site = Site("", database, process, secret)
    found = threading.Event()
    reader = threading.Thread(target=_read, args=(process.stdout, site.lines, found), daemon=True)
    reader.start()
    try:
        site.url = _await_url(site.lines, found)
        yield site
        if process.poll() is None:
            assert site.stop() == 0, "".join(site.lines)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(5)
        process.stdout.close()


def _read(output: IO[str], lines: list[str], found: threading.Event) -> None:
    """Keep what the process prints; its URL, or its end, is found."""
    for line in output:
        lines.append(line)
        if line.startswith("serving "):
            found.set()
    found.set()


def _await_url(lines: list[str], found: threading.Event) -> str:
    """The URL that the process prints once it listens."""
    found.wait(START_S)
    urls = [match[1] for line in lines if (match := re.match(r"serving (\S+)", line))]
    assert urls, "the site did not start:\n" + "".join(lines)
    return urls[0]


def make_people(database: Database) -> None:
    """Accounts by role, with one password."""
    hashed = make_password(PASSWORD)
    with database.connect(OWNER) as connection:
        for name, role in ROLES.items():
            user = connection.execute(
                "INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, first_name, last_name,"
                " email, date_joined) VALUES (%s, %s, %s, %s, true, '', '', '', now()) RETURNING id",
                [name, hashed, name == "ada", name == "ada"],
            ).fetchone()
            assert user is not None
            connection.execute(
                "INSERT INTO auth_user_groups (user_id, group_id) SELECT %s, id FROM auth_group WHERE name = %s",
                [user[0], role],
            )


@pytest.fixture(scope="module")  # not the session: its event loop would stand in the way of the asynchronous tests
def browser() -> Iterator[Browser]:
    """The browser of this module."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def people(database: Database) -> None:
    make_people(database)


@pytest.fixture
def served(database: Database, people: None) -> Iterator[Site]:
    with serving(database) as site:
        yield site


@contextmanager
def watched(context: BrowserContext, forgive: str = r"^$") -> Iterator[Page]:
    """A page whose errors fail the test, but for those whose text matches `forgive`."""
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.forgive = re.compile(forgive)  # type: ignore[attr-defined]
    yield page
    left = [error for error in errors if not page.forgive.search(error)]  # type: ignore[attr-defined]
    assert not left, left


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1440, "height": 900})
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    with watched(context) as page:
        yield page


def login(page: Page, site: Site, name: str = "olga") -> None:
    """Log in by the form, and be on the live page."""
    page.goto(site.url)
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_load_state()


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the whole page, if somebody wants pictures."""
    folder = os.environ.get("CUZK_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
