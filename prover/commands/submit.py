"""`cuzk submit`: queue a request in the database, and wait for its proof if that is asked for."""

from __future__ import annotations

import argparse
import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .arguments import Parsers, add_database
from .exits import Exit
from .files import read_request, write_file
from .terminal import Progress, note, warn

if TYPE_CHECKING:
    from prover.journal.client import Client, JobRow


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "queue a request in the database"
    parser = parsers.add_parser("submit", help=text, description=text)
    parser.add_argument("request", type=Path, metavar="FILE", help="the request, JSON")
    parser.add_argument("--wait", action="store_true", help="until the job has ended")
    parser.add_argument("--out", type=Path, metavar="PROOF", help="wait, and write the proof there")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="how long to wait (default: for ever)")
    add_database(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    from prover.journal.client import Client

    request = read_request(arguments.request)
    client = Client(arguments.database)
    try:
        job = client.submit(request, user())
        note(
            f"job {job.number} {'queued' if job.created else f'was there already: {job.state}'} ({request.request_id})"
        )
        if not (arguments.wait or arguments.out):
            print(job.job)
            return Exit.OK
        return _wait(client, job.job, arguments)
    finally:
        client.close()


def seconds(text: str) -> float:
    """A time that can be waited for."""
    value = float(text)
    if not 0 <= value <= 1e9:  # a NaN neither
        raise ValueError(text)
    return value


def user() -> str:
    """Who submits, for the history."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _wait(client: Client, job: str, arguments: argparse.Namespace) -> Exit:
    progress = Progress("waiting for the proof")

    def look(row: JobRow) -> None:
        progress(row.partitions_done / row.partitions)

    row = client.wait(job, arguments.timeout, look)
    progress.done()
    print(job)
    if not row.done:
        note(
            f"job {row.number} {row.state}: {row.error_message or 'no reason is known'} [{row.error_code or row.state}]"
        )
        return Exit.REFUSED
    if row.local_keys:
        warn("local keys: not for the chain")
    if arguments.out:
        proof = client.proof(job)
        write_file(arguments.out, proof)
        note(f"wrote {arguments.out}: {len(proof)} bytes")
    return Exit.OK
