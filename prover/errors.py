"""One class a cause, each with a stable code that the log, the database row, the page and docs/errors.md share.

The default message of an error is its class's docstring, so that every cause is documented where it is defined.
Codes are an interface: they never change and are never reused.
"""

from __future__ import annotations

from typing import ClassVar


class CuzkError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "cuzk_error"
    #: whether the same attempt may succeed when made again (a bad witness never, a lost device perhaps)
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        """`field` names the part of the input at fault, as a path such as ``vanilla_proofs[3].sector_id``."""
        self.message = message or (type(self).__doc__ or "").strip()
        self.field = field
        super().__init__(f"{field}: {self.message}" if field else self.message)


class InvalidInput(CuzkError):
    """The input is not valid."""

    code = "invalid_input"


class InvalidRequest(InvalidInput):
    """The file or message is no proof request."""

    code = "invalid_request"


class UnsupportedProof(InvalidInput):
    """This kind of proof, sector size or registered proof is not supported."""

    code = "unsupported_proof"


class RequestTooLarge(InvalidInput):
    """The request is larger than the limit."""

    code = "request_too_large"


class RequestConflict(InvalidInput):
    """A job with this request id and another content is there already."""

    code = "request_conflict"


class CommandRefused(CuzkError):
    """The command cannot be executed."""

    code = "command_refused"


class InternalError(CuzkError):
    """The prover met an error it does not know; the log has the details."""

    code = "internal_error"


def describe(error: BaseException) -> tuple[str, str]:
    """The (code, text) under which an error is recorded; an unknown exception counts as an internal error."""
    if isinstance(error, CuzkError):
        return error.code, str(error)
    return InternalError.code, f"{type(error).__name__}: {error}"
