"""Settings come from the environment, fail loudly, are safe as documented, and each is documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from cuzk_web import env
from cuzk_web.live import source
from cuzk_web.submission import child
from tests.postgres import ROOT

SECURE = {
    "CUZK_HTTPS": "1",
    "CUZK_HSTS_SUBDOMAINS": "1",
    "CUZK_HSTS_PRELOAD": "1",
    "CUZK_ALLOWED_HOSTS": "cuzk.example",
    "CUZK_SECRET_KEY": "".join(chr(33 + n % 90) for n in range(64)),
}


def manage(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUZK_", "DJANGO_"))}
    env |= {"DATABASE_URL": "postgresql:///nowhere", **more}
    command = [sys.executable, "-W", "error", "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)


def test_the_documented_settings_pass_djangos_deployment_checks() -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **SECURE)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


def test_without_https_the_checks_say_so() -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **(SECURE | {"CUZK_HTTPS": "0"}))
    assert done.returncode != 0 and "security.W012" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("CUZK_DEBUG", "maybe", "must be one of"),
        ("CUZK_PROXY_HOPS", "many", "must be a whole number"),
        ("CUZK_PROXY_HOPS", "9", "must be from 0 to 8"),
        ("CUZK_SUBMISSION_MAX_MIB", "0", "must be from 1 to"),
        ("CUZK_SECRET_KEY", "", "is not set"),
        ("CUZK_SECRET_KEY_FILE", "/no/such/file", "No such file"),
        ("DATABASE_URL", "mysql://x", "must start with postgresql://"),
    ],
)
def test_a_bad_value_stops_the_start_and_names_its_variable(name: str, value: str, word: str) -> None:
    done = manage("check", **(SECURE | {name: value}))
    assert done.returncode != 0
    assert name in done.stderr and word in done.stderr


def test_a_secret_can_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    path.write_text("from the file\n")
    monkeypatch.setenv("CUZK_SECRET_KEY", "from the variable")
    monkeypatch.setenv("CUZK_SECRET_KEY_FILE", str(path))
    assert env.secret("CUZK_SECRET_KEY") == "from the file"


def test_a_database_url_is_read_whole() -> None:
    read = env.database("postgresql://me:p%40ss@db.example:5433/proofs")
    assert (read["USER"], read["PASSWORD"], read["HOST"], read["PORT"]) == ("me", "p@ss", "db.example", "5433")
    assert env.database("postgresql://me:x@/proofs?host=/run/pg")["HOST"] == "/run/pg"
    with pytest.raises(ImproperlyConfigured):
        env.database("sqlite:///x")


def test_no_parameter_of_a_database_url_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:x@db.example/proofs?sslmode=verify-full&sslrootcert=/etc/ca.pem"
    read = env.database(url)
    assert read["OPTIONS"] == {"connect_timeout": "3", "sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", read["OPTIONS"])
    assert conninfo_to_dict(source.conninfo())["sslmode"] == "verify-full"
    assert env.database(child._environment()["DATABASE_URL"])["OPTIONS"] == read["OPTIONS"]


def test_each_variable_is_documented_and_nothing_else_is() -> None:
    text = (ROOT / "docs" / "web.md").read_text()
    read = re.findall(r'env\.\w+\("(CUZK_\w+)"|environ\.get\("(CUZK_\w+)"', (ROOT / "cuzk_web/settings.py").read_text())
    variables = {name for pair in read for name in pair if name}
    documented = set(re.findall(r"^\| `(CUZK_\w+)`", text, re.M))
    assert variables == documented and len(variables) > 8


@pytest.mark.postgres
@pytest.mark.django_db
def test_the_models_agree_with_the_migrations() -> None:
    from django.core.management import call_command

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
