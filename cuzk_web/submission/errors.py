"""Why a submission is refused, beside what is wrong with the request itself (prover.filecoin.errors)."""

from __future__ import annotations

from prover.errors import CuzkError


class QuotaExceeded(CuzkError):
    """The account has used up what it may submit."""

    code = "quota_exceeded"


class SubmissionBusy(CuzkError):
    """Other large requests are being checked. Try again in a minute."""

    code = "submission_busy"


class SubmissionFailed(CuzkError):
    """The request could not be checked: the process that read it ended early. The log of the web process says why."""

    code = "submission_failed"
