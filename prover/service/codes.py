"""The status of gRPC for each of our errors. The code itself travels in the text and as `cuzk-code` in the trailers."""

from __future__ import annotations

import grpc

from prover.errors import CuzkError, InternalError, InvalidInput

CODE_KEY = "cuzk-code"
MAX_TEXT = 1000  # characters of a status: it travels in a header

_STATUS = {
    "request_too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "service_busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "request_conflict": grpc.StatusCode.ALREADY_EXISTS,
    "request_incomplete": grpc.StatusCode.DEADLINE_EXCEEDED,
    "job_unknown": grpc.StatusCode.NOT_FOUND,
    "circuit_unknown": grpc.StatusCode.NOT_FOUND,
    "key_not_found": grpc.StatusCode.FAILED_PRECONDITION,
    "key_damaged": grpc.StatusCode.FAILED_PRECONDITION,
    "key_mismatch": grpc.StatusCode.FAILED_PRECONDITION,
    "circuit_too_large": grpc.StatusCode.FAILED_PRECONDITION,
    "domain_too_large": grpc.StatusCode.FAILED_PRECONDITION,
    "command_refused": grpc.StatusCode.FAILED_PRECONDITION,
    "local_keys_refused": grpc.StatusCode.FAILED_PRECONDITION,
    "not_authenticated": grpc.StatusCode.UNAUTHENTICATED,
    "database_away": grpc.StatusCode.UNAVAILABLE,
    "database_full": grpc.StatusCode.UNAVAILABLE,
    "service_draining": grpc.StatusCode.UNAVAILABLE,
    "key_in_use": grpc.StatusCode.FAILED_PRECONDITION,
}


def status_of(error: CuzkError) -> grpc.StatusCode:
    """What a client is told; InvalidInput without an entry of its own is an invalid argument."""
    if error.code in _STATUS:
        return _STATUS[error.code]
    return grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, InvalidInput) else grpc.StatusCode.INTERNAL


def text_of(error: CuzkError) -> str:
    """FIELD: TEXT [CODE], as the command line writes it, without characters that cannot be shown."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(error))
    return f"{text[:MAX_TEXT]}{'...' if len(text) > MAX_TEXT else ''} [{error.code}]"


def known(error: BaseException) -> CuzkError:
    """The error itself, or what an unknown one counts as: its text stays in the log."""
    return error if isinstance(error, CuzkError) else InternalError()
