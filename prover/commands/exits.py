"""The exit codes of every command: an interface for scripts. docs/cli.md lists them."""

from __future__ import annotations

from enum import IntEnum

from prover.errors import CuzkError, InvalidInput


class Exit(IntEnum):
    """What the exit code says; MEANINGS has the text of each."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    BAD_INPUT = 3
    KEYS = 4
    UNAVAILABLE = 5
    INTERNAL = 70
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "done; `verify`: the proof is valid",
    Exit.REFUSED: "the answer is no: a proof that is not valid, work that failed",
    Exit.USAGE: "wrong usage of the command line",
    Exit.BAD_INPUT: "the request, the proof or another input is not valid; the text names the field and the limit",
    Exit.KEYS: "a key is missing, damaged, of another circuit, or exists already",
    Exit.UNAVAILABLE: "something needed is not there: a device, the database, a folder to write to, space on the disk",
    Exit.INTERNAL: "an error that cuzk does not know: please report it",
    Exit.INTERRUPTED: "stopped by Ctrl-C",
}
_UNAVAILABLE_CODES = frozenset(
    {
        "data_folder_foreign",
        "data_folder_in_use",
        "data_folder_unwritable",
        "data_folder_version",
        "coordinator_unreachable",
        "database_away",
        "database_full",
        "device_missing",
        "devices_uneven",
        "database_unusable",
        "engine_unreachable",
        "file_unwritable",
        "host_lost",
        "key_write_failed",
        "listen_failed",
        "platform_unavailable",
        "waited_too_long",
        "postgres_failed",
        "postgres_not_found",
        "prover_name_taken",
        "spool_unwritable",
        "stack_failed",
        "tables_not_kept",
    }
)
_KEY_CODES = frozenset({"key_damaged", "key_mismatch", "key_not_found", "key_exists"})


class FileUnreadable(InvalidInput):
    """The file cannot be read."""

    code = "file_unreadable"


class FileUnwritable(CuzkError):
    """The file cannot be written."""

    code = "file_unwritable"


def exit_code(error: CuzkError) -> Exit:
    """The exit code of an error that ended a command."""
    if error.code in _KEY_CODES:
        return Exit.KEYS
    if isinstance(error, InvalidInput):
        return Exit.BAD_INPUT
    return Exit.UNAVAILABLE if error.code in _UNAVAILABLE_CODES else Exit.REFUSED
