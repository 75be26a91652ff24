"""One served site a module, with a fleet of four workers in its database, as a prover would have written it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

from prover.stack.roles import OWNER
from prover.states import Entity
from tests.browser import Site, make_people, serving
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
        self.beat()

    def beat(self) -> None:
        """A lease for as long as a test may take."""
        self.writer.beat(self.story.session)
        self.writer.connection.execute("UPDATE session SET lease_until = clock_timestamp() + interval '5 min'")

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


@pytest.fixture(scope="module")
def served(template: Database) -> Iterator[Site]:
    """The site, over a database of this module, with its people."""
    name = f"pages_{secrets.token_hex(4)}"
    words = (sql.Identifier(name), sql.Identifier(template.name), sql.Identifier(OWNER))
    with template.server.connect() as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY file_copy").format(*words))
        database = Database(template.server, name)
        make_people(database)
        with serving(database) as site:
            yield site
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def prover(served: Site) -> Iterator[Fleet]:
    """The fleet of the module."""
    with served.database.connect(OWNER) as connection:
        story = Story(now_us=time.time_ns() // 1000 - 120_000_000)
        story.start()
        yield Fleet(story, Writer(connection))


@pytest.fixture
def fleet(prover: Fleet) -> Fleet:
    """The same, alive as the test begins."""
    prover.flush()
    return prover
