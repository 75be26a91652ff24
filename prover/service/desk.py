"""Requests in, answers out: what the service does in the database, by the same checks and functions as everybody.

Every call may take long, for a request is large or the database slow: threads of the service's own make them, each
with a connection of its own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from prover.filecoin.request import ProofRequest, parse_message
from prover.groth16.errors import KeyNotFound
from prover.groth16.store import KeyStore
from prover.journal.client import Client, JobRow
from prover.journal.errors import DatabaseAway
from prover.states import Action

from .errors import DeadlineInvalid, LocalKeysRefused

T = TypeVar("T")
BY = "grpc"  # who submits and cancels, for the history
_DURATION = re.compile(r"(\d{1,6})(s|m|h)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}


@dataclass(frozen=True, slots=True)
class Ticket:
    """A job that was queued, or found: `name` is the request id, by which its submitter knows it."""

    job: str
    name: str
    position: int


class Desk:
    """Thread-safe: a connection a thread."""

    def __init__(self, url: str, keys: KeyStore, *, makes_keys: bool = False, allow_local_keys: bool = False) -> None:
        self._url, self._keys = url, keys
        self._makes_keys, self._allow_local_keys = makes_keys, allow_local_keys
        self._own = threading.local()
        self._clients: list[Client] = []

    def submit(self, data: bytes, deadline: str | None = None) -> Ticket:
        """Queue a SubmitProofRequest in protobuf, or find its job.

        Raises InvalidInput, RequestConflict, LocalKeysRefused, DatabaseAway.
        """
        until = parse_deadline(deadline, datetime.now(UTC)) if deadline is not None else None
        request = parse_message(data)
        self._refuse_local_keys(request)
        made = self._ask(lambda client: client.submit(request, BY, until))
        return Ticket(made.job, request.request_id, self._ask(lambda client: client.position(made.job)))

    def find(self, name: str) -> JobRow:
        """The job of a request id, or of a job's id. Raises JobUnknown, DatabaseAway."""
        return self._ask(lambda client: client.find(name))

    def proof(self, row: JobRow) -> bytes:
        """Of a job that is done. Raises LocalKeysRefused, DatabaseAway."""
        if row.local_keys and not self._allow_local_keys:
            raise LocalKeysRefused(f"job {row.number} was proved with keys that are not for the chain")
        return self._ask(lambda client: client.proof(row.job))

    def cancel(self, name: str) -> bool:
        """Whether a prover had the job: then it ends at the next safe point. Raises JobUnknown, DatabaseAway."""
        job = self.find(name).job
        return self._ask(lambda client: client.request_job(Action.CANCEL, job, BY, {})).state == "pending"

    def close(self) -> None:
        """After the last call."""
        for client in self._clients:
            client.close()

    def _ask(self, question: Callable[[Client], T]) -> T:
        """Once more when a connection of earlier calls was found broken: all that is asked here may be asked twice."""
        client = self._client()
        was_open = client.is_open
        try:
            return question(client)
        except DatabaseAway:
            if not was_open:
                raise
            return question(client)

    def _client(self) -> Client:
        client: Client | None = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = Client(self._url)
            self._clients.append(client)
        return client

    def _refuse_local_keys(self, request: ProofRequest) -> None:
        """By the keys of this host; what another prover proved is looked at when its proof is asked for."""
        if self._allow_local_keys:
            return
        local = self._makes_keys
        with suppress(KeyNotFound):
            local = self._keys.find(request.shape.key_name).local
        if local:
            raise LocalKeysRefused(f"the key of {request.shape.label} is not for the chain")


def parse_deadline(text: str, now: datetime) -> datetime:
    """RFC 3339 with an offset, or from now as 90s, 10m or 2h. Raises DeadlineInvalid, also for one that has passed."""
    match = _DURATION.fullmatch(text.strip())
    if match is not None:
        return now + timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise DeadlineInvalid("neither RFC 3339 with an offset nor a time from now as 90s, 10m or 2h", field="deadline")
    if found <= now:
        raise DeadlineInvalid(f"{found.isoformat()} has passed", field="deadline")
    return found
