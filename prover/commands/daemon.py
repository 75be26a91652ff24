"""`cuzk daemon`: the prover's process."""

from __future__ import annotations

import argparse
from pathlib import Path

from prover.commands.arguments import Parsers


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = parsers.add_parser("daemon", help="prove what is queued in the database, until SIGTERM or Ctrl-C")
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="TOML file (docs/configuration.md)")
    parser.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], dest="flags",
        help="one setting; it overrides the file and the environment; may be repeated",
    )  # fmt: skip
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="logging.level")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the prover; its exit code. Raises CuzkError when it cannot start."""
    from prover import config, daemon

    flags = [*arguments.flags, *([f"logging.level={arguments.log_level}"] if arguments.log_level else [])]
    return daemon.main(config.load(arguments.config, flags=flags))
