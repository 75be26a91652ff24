"""What a reader asks of the history, read from the URL and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.contrib.postgres.fields import ArrayField
from django.db.models import Func, Q, QuerySet, TextField, Value
from django.db.models.functions import StrIndex, Upper
from django.db.models.lookups import GreaterThan
from django.http import QueryDict

from cuzk_web.fleet.models import JobSearch
from cuzk_web.live.labels import KINDS
from prover.errors import InvalidInput
from prover.states import Job as JobState

STATES = [state.value for state in JobState if state]
OPEN, ENDED = "open", "ended"
MAX_TEXT = 1024  # bytes of UTF-8: a request id is no longer
MAX_NUMBER = (1 << 63) - 1  # the database's largest
SHORTEST = 3  # characters of a text that the index finds: its words are as long
NAMES = ("kind", "state", "since", "until", "q", "before", "after")


class InvalidFilter(InvalidInput):
    """The address of this page asks for something that the history cannot be searched by."""

    code = "invalid_filter"


@dataclass(frozen=True)
class JobFilter:
    """The filters of the list. `before` and `after` are job numbers: the edge of the page beside."""

    kind: str = ""
    state: str = ""
    since: datetime | None = None
    until: datetime | None = None
    q: str = ""
    before: int | None = None
    after: int | None = None

    @staticmethod
    def from_query(query: QueryDict) -> JobFilter:
        """Raises InvalidFilter naming the parameter. An unknown one is refused: a typo would show too much."""
        for name in query:
            if name not in NAMES:
                raise InvalidFilter(f"there is no such filter; known are {', '.join(NAMES)}", field=name[:100])
        since, until = _moment(query, "since"), _moment(query, "until")
        if since and until and since > until:
            raise InvalidFilter("is later than until", field="since")
        before, after = _number(query, "before"), _number(query, "after")
        if before is not None and after is not None:
            raise InvalidFilter("cannot be combined with after", field="before")
        return JobFilter(_kind(query), _state(query), since, until, _text(query), before, after)

    def where(self) -> Q:
        """The condition on Job, without the page's edge."""
        where = Q()
        if self.kind:
            where &= Q(kind=self.kind)
        if self.state:
            where &= {OPEN: Q(ended_at=None), ENDED: Q(ended_at__isnull=False)}.get(self.state, Q(state=self.state))
        if self.since:
            where &= Q(submitted_at__gte=self.since)
        if self.until:
            where &= Q(submitted_at__lt=self.until)
        return where & self._text_where() if self.q else where

    def _text_where(self) -> Q:
        # not LIKE, of which the database expects so few that it reads and sorts the table when most jobs are meant
        place = StrIndex(Upper("request_id"), Upper(Value(self.q)))
        where = Q(GreaterThan(place, 0)) | Q(error_code=self.q.lower())
        return where if self._number is None else where | Q(miner_id=self._number) | Q(sector_number=self._number)

    def candidates(self) -> QuerySet[JobSearch] | None:
        """By the index, the jobs that `q` may mean: all those, and some more. None when `q` is too short for it."""
        if len(self.q) < SHORTEST:
            return None
        parts = Func(Value(self.q), function="search_parts", output_field=ArrayField(TextField()))
        words = [f"error:{self.q.lower()}"]
        if self._number is not None:
            words += [f"miner:{self._number}", f"sector:{self._number}"]
        return JobSearch.objects.filter(Q(words__contains=parts) | Q(words__overlap=words))

    @property
    def _number(self) -> int | None:
        """Of a miner or sector."""
        number = self.q.removeprefix("f0").removeprefix("t0")
        return int(number) if number.isascii() and number.isdigit() and int(number) <= MAX_NUMBER else None

    @property
    def active(self) -> bool:
        """Whether anything is filtered at all."""
        return bool(self.kind or self.state or self.since or self.until or self.q)

    def url(self, **edge: int) -> str:
        """The query string of this filter with another edge (or, without one, of the newest page)."""
        values = {"kind": self.kind, "state": self.state, "q": self.q}
        times = {"since": self.since, "until": self.until}
        values |= {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in times.items() if at}
        return "?" + urlencode({name: value for name, value in (values | edge).items() if value})


def _kind(query: QueryDict) -> str:
    kind = query.get("kind", "")
    if kind and kind not in KINDS:
        raise InvalidFilter(f"must be one of {', '.join(KINDS)}", field="kind")
    return kind


def _state(query: QueryDict) -> str:
    state = query.get("state", "")
    if state and state not in (OPEN, ENDED, *STATES):
        raise InvalidFilter(f"must be one of {OPEN}, {ENDED}, {', '.join(STATES)}", field="state")
    return state


def _text(query: QueryDict) -> str:
    text = query.get("q", "").strip()
    if len(text.encode(errors="replace")) > MAX_TEXT:
        raise InvalidFilter(f"is longer than {MAX_TEXT} bytes", field="q")
    if "\0" in text:
        raise InvalidFilter("holds a NUL character", field="q")
    return text


def _moment(query: QueryDict, name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidFilter(
            "must be a time like 2026-11-30T08:00 (UTC unless it says otherwise)", field=name
        ) from error
    if not 1980 <= at.year <= 2200:  # far ends overflow when converted
        raise InvalidFilter("must lie between 1980 and 2200", field=name)
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def _number(query: QueryDict, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_NUMBER):
        raise InvalidFilter("must be the number of a job", field=name)
    return int(text)
