"""`cuzk daemon`: the prover's process."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from prover.commands.arguments import Parsers
from prover.commands.exits import Exit
from prover.commands.terminal import note, warn

if TYPE_CHECKING:
    from prover.config import Loaded


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = parsers.add_parser("daemon", help="prove what is queued in the database, until SIGTERM or Ctrl-C")
    add_settings(parser)
    parser.add_argument("-l", "--listen", metavar="ADDRESS", help="daemon.listen")
    parser.add_argument("--log-level", metavar="LEVEL", help="logging.level: debug, info, warning, error")
    parser.add_argument(
        "--print-config", action="store_true",
        help="print the configuration as TOML, with where each value comes from, and end",
    )  # fmt: skip
    parser.set_defaults(run=run)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--config and --set."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", type=Path,
        help="TOML file (docs/configuration.md); default: that of CUZK_CONFIG, else /data/zk/cuzk.toml if it is there",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="SECTION.KEY=VALUE", action="append", default=[], dest="flags",
        help="one setting; it overrides the file and the environment; may be repeated",
    )  # fmt: skip


def read_settings(arguments: argparse.Namespace, *flags: str) -> Loaded:
    """The configuration that file, environment and flags give; warns of what has no effect. Raises
    ConfigurationInvalid."""
    from prover import config

    file = config.file_to_read(arguments.config)
    loaded = config.read(file, flags=[*arguments.flags, *flags])
    if file is not None:
        note(f"configuration: {file}")
    for text in loaded.notes:
        warn(text)
    return loaded


def run(arguments: argparse.Namespace) -> int:
    """Runs the prover; its exit code. Raises CuzkError when it cannot start."""
    named = {"logging.level": arguments.log_level, "daemon.listen": arguments.listen}
    loaded = read_settings(arguments, *(f"{key}={value}" for key, value in named.items() if value is not None))
    if arguments.print_config:
        from prover.settings_text import to_toml

        print(to_toml(loaded), end="")
        return Exit.OK
    from prover import daemon

    return daemon.main(loaded.config)
