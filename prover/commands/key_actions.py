"""`cuzk keys preload | evict | pin | unpin`: what is asked of a prover's keys."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from prover.errors import InvalidInput
from prover.filecoin.circuit_ids import circuit_of
from prover.states import ACTIONS, Action, Command, Lifecycle, Target

from .arguments import Parsers, add_database
from .exits import Exit
from .submit import user
from .terminal import note

if TYPE_CHECKING:
    from prover.journal.client import Client

_TEXTS = {
    Action.PRELOAD: "have a prover load a key before a job needs it",
    Action.EVICT: "have a prover let a key go that nobody uses",
    Action.PIN: "keep a key from being evicted, once it is loaded",
    Action.UNPIN: "let a key be evicted again when it is idle",
}


class ProverAmbiguous(InvalidInput):
    """There are several provers, or none: --prover says which is meant."""

    code = "prover_ambiguous"


def add_parsers(commands: Parsers[argparse.ArgumentParser]) -> None:
    for action in ACTIONS[Target.KEY]:
        parser = commands.add_parser(action, help=_TEXTS[action], description=_TEXTS[action])
        parser.add_argument("circuit", metavar="CIRCUIT", help="window-post-2KiB, wpost-32g, or the key's name")
        parser.add_argument("--prover", metavar="NAME", help="default: the only one that is online")
        parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for the answer (default: no limit)")
        add_database(parser)
        parser.set_defaults(run=run, action=action)


def run(arguments: argparse.Namespace) -> Exit:
    """Ask, wait for the answer and say it."""
    from prover.journal.client import Client

    shape = circuit_of(arguments.circuit)
    client = Client(arguments.database)
    try:
        prover = arguments.prover or _only_prover(client)
        command = client.request_key(arguments.action, prover, shape.key_name, user())
        answer = client.answer(command, arguments.timeout)
    finally:
        client.close()
    note(f"refused: {answer.outcome}" if answer.state == Command.REFUSED else f"{shape.label}: {answer.outcome}")
    return Exit.REFUSED if answer.state == Command.REFUSED else Exit.OK


def _only_prover(client: Client) -> str:
    fleet = client.fleet()
    online = [one.prover for one in fleet.sessions if one.state == Lifecycle.ONLINE and not fleet.has_lost_contact(one)]
    if len(online) != 1:
        text = f"{', '.join(sorted(online))} are online" if online else "no prover is online"
        raise ProverAmbiguous(text, field="--prover")
    return online[0]
