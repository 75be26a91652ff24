"""`cuzk up`: Postgres, prover and web on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse

from prover.commands.arguments import Parsers


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    text = "Postgres, keys, prover and web on this machine, until Ctrl-C; prints the page's URL"
    parser = parsers.add_parser(
        "up",
        help=text,
        description=text,
        epilog="CUZK_HOME: folder of all state (./var); CUZK_PORT: of the page (8000)",
    )
    parser.set_defaults(run=run)


def run(_arguments: argparse.Namespace) -> int:
    """Returns the exit code. Raises CuzkError when something does not start."""
    from prover.stack import up

    return up.main()
