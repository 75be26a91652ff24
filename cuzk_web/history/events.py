"""The event log of one job, oldest first, in keyset pages."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from cuzk_web import formats
from cuzk_web.fleet.models import Transition

from .filters import MAX_NUMBER, InvalidFilter

PAGE = 50  # events
_LAST_US = 7_258_118_400_000_000  # the year 2200


@dataclass(frozen=True)
class Cursor:
    """The event after which a page starts."""

    at: datetime
    session: uuid.UUID
    seq: int

    @staticmethod
    def parse(text: str) -> Cursor:
        """Inverse of `str`. Raises InvalidFilter."""
        try:
            at, session, seq = text.split("_")
            us, number = int(at), int(seq)
            if not (0 <= us <= _LAST_US and 0 <= number <= MAX_NUMBER):
                raise ValueError(text)
            return Cursor(formats.from_us(us), uuid.UUID(session), number)
        except ValueError as error:
            raise InvalidFilter("is no place in the list of events", field="events") from error

    def __str__(self) -> str:
        return f"{formats.to_us(self.at)}_{self.session}_{self.seq}"


@dataclass(frozen=True)
class EventPage:
    """Events, and the cursor of the page that follows (None at the end)."""

    events: list[Transition]
    next: Cursor | None


def event_page(job: uuid.UUID, after: Cursor | None) -> EventPage:
    """The events of a job after a cursor (or from its first), at most PAGE."""
    rows = Transition.objects.filter(job=job)
    if after is not None:
        rows = rows.filter(Q(at__gte=after.at) & _beyond(after))
    found = list(rows.order_by("at", "session", "seq")[: PAGE + 1])
    events = found[:PAGE]
    last = events[-1] if len(found) > PAGE else None
    return EventPage(events, None if last is None else Cursor(last.at, last.session_id, last.seq))


def _beyond(cursor: Cursor) -> Q:
    same = Q(at=cursor.at)
    later = Q(session__gt=cursor.session) | Q(session=cursor.session, seq__gt=cursor.seq)
    return Q(at__gt=cursor.at) | (same & later)
