"""What a submitter is told when the database refuses: full, unusable, away."""

from __future__ import annotations

import pytest

from prover.journal.client import Client, DatabaseUnusable
from prover.journal.errors import DatabaseAway, DatabaseFull
from prover.stack.roles import DAEMON
from tests.postgres import Database

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("state", "error"),
    [("53100", DatabaseFull), ("53300", DatabaseFull), ("57P03", DatabaseAway), ("42P01", DatabaseUnusable)],
)
def test_the_code_says_what_is_wrong(database: Database, state: str, error: type[Exception]) -> None:
    client = Client(database.url(DAEMON))
    with pytest.raises(Exception) as raised:
        client._row(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$", [])
    client.close()
    assert type(raised.value) is error
