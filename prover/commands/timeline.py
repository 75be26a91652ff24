"""`cuzk timeline`: the original's TIMELINE lines of what was recorded, for waterfalls."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from prover.journal.errors import ProverUnknown

from .arguments import Parsers, add_database
from .exits import Exit

if TYPE_CHECKING:
    from prover.journal.client import Client, Scope


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "TIMELINE lines of a job, or of a prover's last session"
    parser = parsers.add_parser("timeline", help=text, description=text)
    parser.add_argument("job", nargs="?", metavar="JOB", help="its request id or its own id; default: all jobs")
    parser.add_argument("--prover", metavar="NAME", help="without JOB: whose last session (default: the newest of all)")
    add_database(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    """Prints the lines. Raises JobUnknown, ProverUnknown, DatabaseAway."""
    from prover.journal.client import Client
    from prover.timeline import timeline

    client = Client(arguments.database)
    try:
        since_us, scope = client.scope_of_job(arguments.job) if arguments.job else _session(client, arguments.prover)
        for line in timeline(client.attempt_moves(scope), since_us):
            print(line)
    finally:
        client.close()
    return Exit.OK


def _session(client: Client, prover: str | None) -> tuple[int, Scope]:
    found = client.scope_of_session(prover)
    if found is None:
        raise ProverUnknown(
            "no prover has used this database" if prover is None else f"{prover!r} is none of its provers"
        )
    return found
