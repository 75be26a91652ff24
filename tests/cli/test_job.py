"""`cuzk job`: what it asks, what it prints, what it refuses."""

from __future__ import annotations

import uuid

import pytest

from prover.cli import main
from prover.commands.job import MomentInvalid, moment_us
from prover.stack.roles import DAEMON, OWNER, SITE
from tests.journal.helpers import submit_one
from tests.postgres import Database

pytestmark = pytest.mark.postgres


def test_a_job_is_held_moved_cancelled_and_retried(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    job = submit_one(database, priority=2)

    def cuzk(action: str, *words: str) -> int:
        return main(["job", action, job, *words, "--database", database.url(DAEMON)])

    assert cuzk("hold") == 0 and cuzk("hold") == 1
    assert "held: no prover takes it" in (said := capsys.readouterr().err) and "refused: it is held" in said
    assert cuzk("priority", "critical") == 0 and cuzk("deadline", "2126-11-30T08:00+02:00") == 0
    with database.connect(OWNER) as owner:
        row = owner.execute("SELECT priority, deadline = '2126-11-30T06:00Z', state FROM job").fetchone()
    assert row == (4, True, "held")
    assert cuzk("deadline", "none") == 0 and cuzk("release") == 0 and cuzk("cancel") == 0
    capsys.readouterr()
    assert cuzk("retry") == 0
    with database.connect(SITE) as web:
        again = web.execute("SELECT id::text FROM job WHERE retry_of_id = %s", [job]).fetchone()
        assert web.execute("SELECT count(*) FROM command WHERE state = 'done'").fetchone() == (7,)
    assert again == (capsys.readouterr().out.strip(),)


def test_an_unknown_job_and_odd_words(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    url = database.url(DAEMON)
    assert main(["job", "hold", str(uuid.uuid4()), "--database", url]) == 1
    assert "[job_unknown]" in capsys.readouterr().err
    assert main(["job", "deadline", str(uuid.uuid4()), "soon", "--database", url]) != 0
    assert "deadline: 'soon' is no moment" in capsys.readouterr().err
    for words in (["job"], ["job", "bake", "x"], ["job", "hold", "x"], ["job", "priority", str(uuid.uuid4()), "5"]):
        with pytest.raises(SystemExit):
            main(words)


def test_a_moment_is_utc_unless_it_says_otherwise() -> None:
    assert moment_us("1970-01-02") == 86_400_000_000
    assert moment_us("1970-01-01T02:00:00.000001+01:00") == 3_600_000_001
    with pytest.raises(MomentInvalid):
        moment_us("")
