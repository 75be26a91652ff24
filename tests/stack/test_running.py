"""Commands find the database of a running `cuzk up` by its folder."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from prover.stack.passwords import password
from prover.stack.postgres import EmbeddedPostgres
from prover.stack.roles import DAEMON, DATABASE
from prover.stack.running import database_url


@pytest.mark.postgres
def test_a_running_server_is_found(postgres: EmbeddedPostgres) -> None:
    password(postgres.secrets, DAEMON)
    url = database_url(postgres.home)
    assert url == postgres.url(DAEMON, DATABASE)
    with pytest.raises(psycopg.OperationalError):  # the server answers: these tests have no database of that name
        psycopg.connect(url.replace(f"/{DATABASE}", "/no-such-database"), connect_timeout=5)


def test_nothing_runs(tmp_path: Path) -> None:
    assert database_url(tmp_path) is None
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / DAEMON).write_text("secret\n")
    data = tmp_path / "postgres" / "data"
    data.mkdir(parents=True)
    lines = ["1", str(data), "0", "5432", "/tmp", "127.0.0.1", "0 0", "starting"]
    (data / "postmaster.pid").write_text("\n".join(lines))
    assert database_url(tmp_path) is None
    (data / "postmaster.pid").write_text("\n".join([*lines[:7], "ready   "]))
    assert database_url(tmp_path) == f"postgresql://{DAEMON}:secret@127.0.0.1:5432/{DATABASE}"
