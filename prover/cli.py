"""The command line: `cuzk`, or `python -m prover`. Results go to stdout; notes, progress and errors to stderr."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence

from prover import __version__
from prover.commands import (
    bench,
    circuit,
    daemon,
    doctor,
    errors,
    job,
    keys,
    prove,
    sample,
    status,
    submit,
    timeline,
    up,
    verify,
)
from prover.commands.exits import MEANINGS, Exit, FileUnwritable, exit_code
from prover.errors import CuzkError, InternalError

COMMANDS = (up, bench, daemon, submit, job, status, timeline, sample, circuit, keys, prove, verify, doctor, errors)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    arguments = parser().parse_args(argv)
    if sys.stdout is None:  # closed by who started us
        sys.stdout = open(os.devnull, "w")
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except CuzkError as error:
        _say(f"{error} [{error.code}]")
        return exit_code(error)
    except KeyboardInterrupt:
        _say("stopped")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            return _unknown(error)
        unwritable = FileUnwritable(f"{error.filename or 'standard output'}: {error.strerror}")
        _say(f"{unwritable} [{unwritable.code}]")
        if error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left would fail again at the end
        return exit_code(unwritable)
    except Exception as error:
        return _unknown(error)


def _unknown(error: Exception) -> int:
    traceback.print_exception(error)
    _say(f"{type(error).__name__}: {error} [{InternalError.code}]")
    return Exit.INTERNAL


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    codes = "\n".join(f"  {code.value:<4}{text}" for code, text in MEANINGS.items())
    root = argparse.ArgumentParser(
        prog="cuzk",
        description="Filecoin proofs in JAX, with a live status page.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"cuzk {__version__}")
    parsers = root.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(parsers)
    return root


def _say(text: str) -> None:
    print(f"cuzk: error: {text}", file=sys.stderr, flush=True)
