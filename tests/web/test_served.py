"""The site as it is served, by `manage.py serve` under the web's database role: headers, health, and memory bounds."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
import psycopg
import pytest

from cuzk_web.submission.samples import SAMPLES
from prover.stack.roles import OWNER, SITE
from tests.postgres import ROOT, Database

pytestmark = pytest.mark.postgres

MIB = 1 << 20
WEB_LIMIT = 150 * MIB  # resident, of the web process


class Site:
    """A running site, and a browser of its administrator."""

    def __init__(self, process: subprocess.Popen[str], address: str, database: Database) -> None:
        self.process, self.database = process, database
        self.address = urlsplit(address)
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None):
        """One request on a connection of its own; (status, headers, content)."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=120)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request(method, path, body, {"Cookie": cookie, **(headers or {})})
        answer = connection.getresponse()
        for value in answer.msg.get_all("Set-Cookie") or []:
            name, rest = value.split("=", 1)
            self.cookies[name] = rest.split(";")[0]
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def token(self, path: str) -> str:
        """The CSRF token of a page's form."""
        text = self.ask("GET", path)[2].decode()
        return re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', text).group(1)

    def log_in(self, password: str) -> None:
        path = "/accounts/login/"
        form = {"csrfmiddlewaretoken": self.token(path), "username": "admin", "password": password}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert self.ask("POST", path, urlencode(form), headers)[0] == 302

    def upload(self, pieces: list[bytes], announced: bool = True):
        """POST /submit/ with a file made of pieces, sent as they come."""
        mark, token = secrets.token_hex(8), self.token("/submit/")
        head = (
            f'--{mark}\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{token}\r\n'
            f'--{mark}\r\nContent-Disposition: form-data; name="request"; filename="request.json"\r\n'
            f"Content-Type: application/json\r\n\r\n"
        ).encode()
        whole = [head, *pieces, f"\r\n--{mark}--\r\n".encode()]
        headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
        if announced:
            headers["Content-Length"] = str(sum(map(len, whole)))
        return self.ask("POST", "/submit/", iter(whole), headers)

    @property
    def peak(self) -> int:
        """The most memory that the process ever held, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


@pytest.fixture(scope="module")
def site(template: Database) -> Iterator[Site]:
    name = f"served_{secrets.token_hex(4)}"
    with template.server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template.name} OWNER {OWNER} STRATEGY file_copy")
    database = Database(template.server, name)
    env = os.environ | {"DATABASE_URL": database.url(SITE), "CUZK_SECRET_KEY": secrets.token_hex()}
    env |= {"DJANGO_SETTINGS_MODULE": "cuzk_web.settings"}
    manage = [sys.executable, "manage.py"]
    made = subprocess.run([*manage, "ensure_admin"], cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    serve = [*manage, "serve", "--port", "0"]
    process = subprocess.Popen(serve, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        running = Site(process, line.removeprefix("serving ").strip(), database)
        running.log_in(made.stdout.strip())
        yield running
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def test_pages_carry_the_security_headers(site: Site) -> None:
    status, headers, _ = site.ask("GET", "/jobs/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
    assert "no-store" in headers["Cache-Control"]


def test_it_is_ready_and_says_how_old_its_knowledge_is(site: Site) -> None:
    status, _, content = site.ask("GET", "/readyz")
    body = json.loads(content)
    assert (status, body["reasons"]) == (200, [])
    assert 0 <= body["live_age_s"] < 15


def test_every_page_answers_under_the_webs_role(site: Site) -> None:
    for path in ("/", "/jobs/", "/jobs/?q=x", "/submit/", "/accounts/password/", "/admin/", "/admin/fleet/worker/"):
        assert site.ask("GET", path)[0] == 200, path


def test_a_sample_can_be_submitted_and_its_request_downloaded(site: Site) -> None:
    status, headers, _ = site.upload([SAMPLES["window-post"].read()])
    assert status == 302
    job = headers["Location"]
    assert site.ask("GET", job)[0] == 200
    status, headers, content = site.ask("GET", job + "request")
    assert status == 200 and headers["Content-Type"] == "application/octet-stream"
    with site.database.connect() as owner:
        (stored,) = owner.execute("SELECT request FROM job_input WHERE job_id = %s", [job.split("/")[2]]).fetchone()
    assert content == bytes(stored)


def test_the_webs_role_writes_no_table_of_the_prover(site: Site) -> None:
    tables = [
        "session",
        "device",
        "worker",
        "job",
        "job_input",
        "attempt",
        "transition",
        "proof",
        "delivery",
        "command",
    ]
    with site.database.connect(SITE) as web:
        for table in tables:
            for statement in ("DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    web.execute(statement.format(table))
            assert web.execute("SELECT has_any_column_privilege(%s, 'UPDATE')", [table]).fetchone() == (False,)
        assert web.execute("SELECT count(*) FROM transition").fetchone()


def test_the_largest_upload_does_not_enlarge_the_web_process(site: Site) -> None:
    """127 MiB that look like a request: written to disk, read by a child, refused by name."""
    piece = b'"' + b"A" * (MIB - 4) + b'",\n'
    status, _, content = site.upload([b'{"vanillaProofs": [', *[piece] * 127, b'"AAAA"]}'])
    text = content.decode()
    assert status == 400, text[-3000:]
    assert "<code>unsupported_proof</code>" in text
    assert site.peak < WEB_LIMIT, f"{site.peak / MIB:.0f} MiB"
    assert not psutil.Process(site.process.pid).children()


def test_what_exceeds_the_limit_is_thrown_away_as_it_arrives(site: Site) -> None:
    status, _, content = site.upload([b"A" * MIB] * 140)
    assert status == 413 and "request_too_large" in content.decode()
    assert site.peak < WEB_LIMIT, f"{site.peak / MIB:.0f} MiB"


def test_a_body_of_unannounced_length_is_no_way_around(site: Site) -> None:
    status, _, _ = site.upload([b"A" * MIB] * 140, announced=False)
    assert status == 403  # without a length no form is read, so there is no token
    assert site.peak < WEB_LIMIT, f"{site.peak / MIB:.0f} MiB"
    assert site.ask("GET", "/livez")[0] == 200
