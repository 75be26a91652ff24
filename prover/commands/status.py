"""`cuzk status`: what a prover does now, from the database; as JSON in the original daemon's shape."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from prover.journal.errors import ProverUnknown

from .arguments import Parsers, add_database
from .exits import Exit
from .terminal import note, warn

if TYPE_CHECKING:
    from prover.journal.client import Fleet, SessionRow


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "what the provers do now"
    parser = parsers.add_parser("status", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="one prover in the shape of the original's GET /status")
    parser.add_argument("--prover", metavar="NAME", help="default: all; with --json the one with the newest heartbeat")
    add_database(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    from prover.journal.client import Client

    client = Client(arguments.database)
    try:
        fleet = client.fleet()
    finally:
        client.close()
    chosen = _chosen(fleet, arguments.prover)
    if not chosen:
        note("no prover has used this database yet")
        return Exit.REFUSED
    if arguments.json:
        print(json.dumps(_status(fleet, chosen[0]), indent=1))
        return Exit.OK
    for session in chosen:
        _print(_status(fleet, session), session, fleet.has_lost_contact(session))
    count = _status(fleet, chosen[0])["counters"]
    print(f"queued {count['queue_depth']}, completed {count['total_completed']}, failed {count['total_failed']}")
    return Exit.OK


def _chosen(fleet: Fleet, name: str | None) -> list[SessionRow]:
    """The provers asked for, the newest heartbeat first."""
    found = [session for session in fleet.sessions if name in (None, session.prover)]
    if name is not None and not found:
        raise ProverUnknown(
            f"{name!r} is none of {', '.join(s.prover for s in fleet.sessions) or '(none)'}", field="--prover"
        )
    return sorted(found, key=lambda session: float("inf") if session.heartbeat_age is None else session.heartbeat_age)


def _status(fleet: Fleet, session: SessionRow) -> dict[str, Any]:
    from prover.status import Moment, status

    return status(Moment(fleet.state, session.session, fleet.now_us, session.gauges or {}, session.heartbeat_age))


def _print(found: dict[str, Any], session: SessionRow, lost_contact: bool) -> None:
    """For people. What a stale prover was doing is said to be old."""
    age = session.heartbeat_age
    beat = "" if age is None else f", last heartbeat {age:.1f} s ago"
    print(f"prover {session.prover}: {session.state}{beat}")
    if lost_contact:
        warn(f"{session.prover} has lost contact: what follows is what it did last")
    if found["local_keys"]:
        print("  local keys: not for the chain")
    if found["journal"]["trouble"]:
        warn(f"{session.prover} claims nothing new: {found['journal']['trouble']}")
    for worker in found["gpu_workers"]:
        print(f"  W{worker['worker_id']} on GPU {worker['gpu_ordinal']}: {_activity(worker)}")
    for job in found["pipelines"]:
        done = f"{job['partitions_done']}/{job['total_partitions']} partitions, {job['started_secs_ago']:.1f} s"
        print(f"  {job['proof_kind']} {job['job_id']}: {job['phase']}, {done}")


def _activity(worker: dict[str, Any]) -> str:
    if worker["state"] == "proving":
        place = f"P{worker['partition_index'] + worker['current_partition']} of {worker['current_job']}"
        return f"proving {place}, {worker['busy_secs']:.1f} s ({worker['phase']})"
    tails = len(worker["finalizing"])
    return str(worker["activity"]) + (f", {tails} finalizing" if tails else "")
