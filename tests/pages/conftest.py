"""A fleet of four workers in the database of the served site, as a prover would have written it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from prover.stack.roles import OWNER
from prover.states import Entity
from tests.live.story import Story
from tests.live.writer import Writer
from tests.postgres import Database


@dataclass
class Fleet:
    """The story, and what it wrote."""

    story: Story
    writer: Writer

    def run(self, seconds: float) -> None:
        """Tell that much more of the story, and write it."""
        self.story.run(seconds)
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.story.take())
        self.writer.beat(self.story.session)

    def answer(self, outcome: str, admin: str | None = None) -> None:
        """Execute the one command that waits, as a prover does: the wish moves, and the row gets its answer."""
        owner: psycopg.Connection[tuple[str, ...]] = self.writer.connection
        command, target = owner.execute("SELECT id, target FROM command WHERE state = 'pending'").fetchone() or ("", "")
        if admin is not None:
            self.story.move(Entity.ADMIN, target, admin, worker=target, detail={"by": "olga"})
            self.flush()
        state = "refused" if admin is None else "done"
        owner.execute(
            "UPDATE command SET state = %s, outcome = %s, answered_at = clock_timestamp() WHERE id = %s",
            [state, outcome, command],
        )


@pytest.fixture
def fleet(database: Database) -> Iterator[Fleet]:
    with database.connect(OWNER) as connection:
        story = Story(now_us=time.time_ns() // 1000 - 120_000_000)
        story.start()
        told = Fleet(story, Writer(connection))
        told.flush()
        yield told
