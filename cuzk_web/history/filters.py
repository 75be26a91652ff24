"""What a reader asks of the history, read from the URL and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.contrib.postgres.fields import ArrayField
from django.db.models import Exists, Func, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import StrIndex, Upper
from django.db.models.lookups import GreaterThan
from django.http import QueryDict

from cuzk_web.fleet.models import Attempt, JobSearch, Session
from cuzk_web.live.labels import KINDS
from prover.errors import InvalidInput
from prover.states import Job as JobState

STATES = [state.value for state in JobState if state]
OPEN, ENDED = "open", "ended"
MAX_TEXT = 1024  # bytes of UTF-8: a request id is no longer
MAX_WORD = 300  # characters of a name: of a worker, a prover, an error code
MAX_NUMBER = (1 << 63) - 1  # the database's largest
SHORTEST = 3  # characters of a text that the index finds: its words are as long
FILTERS = ("kind", "state", "since", "until", "worker", "prover", "miner", "sector", "error", "q")
EDGES = ("before", "after")
NAMES = (*FILTERS, *EDGES)


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
    worker: str = ""
    prover: str = ""
    miner: int | None = None
    sector: int | None = None
    error: str = ""
    q: str = ""
    before: int | None = None
    after: int | None = None

    @staticmethod
    def from_query(query: QueryDict) -> JobFilter:
        """Raises InvalidFilter naming the parameter. An unknown one is refused: a typo would show too much."""
        for name in query:
            if name not in NAMES:
                raise InvalidFilter(f"there is no such filter; known are {', '.join(NAMES)}", field=name[:100])
        since, until = period(query)
        before, after = whole(query, "before"), whole(query, "after")
        if before is not None and after is not None:
            raise InvalidFilter("cannot be combined with after", field="before")
        return JobFilter(
            _kind(query), _state(query), since, until, word(query, "worker"), word(query, "prover"),
            _miner(query), whole(query, "sector", "must be the number of a sector"), word(query, "error").lower(),
            _text(query), before, after,
        )  # fmt: skip

    def where(self) -> Q:
        """The condition on Job, without the page's edge."""
        where = self._plain()
        if self.state:
            where &= {OPEN: Q(ended_at=None), ENDED: Q(ended_at__isnull=False)}.get(self.state, Q(state=self.state))
        if self.since:
            where &= Q(submitted_at__gte=self.since)
        if self.until:
            where &= Q(submitted_at__lt=self.until)
        if self.worker:
            where &= Q(Exists(_attempts().filter(worker=self.worker)))
        if self.prover:
            lives = Session.objects.filter(prover=self.prover).values("pk")
            where &= Q(session__in=lives) | Q(Exists(_attempts().filter(session__in=lives)))
        return where & self._text_where() if self.q else where

    def _plain(self) -> Q:
        """What stands in a column of its own."""
        columns = {"kind": self.kind, "miner_id": self.miner, "sector_number": self.sector, "error_code": self.error}
        return Q(**{name: value for name, value in columns.items() if value not in ("", None)})

    def _text_where(self) -> Q:
        # not LIKE, of which the database expects so few that it reads and sorts the table when most jobs are meant
        place = StrIndex(Upper("request_id"), Upper(Value(self.q)))
        where = Q(GreaterThan(place, 0)) | Q(error_code=self.q.lower())
        return where if self._number is None else where | Q(miner_id=self._number) | Q(sector_number=self._number)

    def candidates(self) -> QuerySet[JobSearch] | None:
        """By the index, the jobs that texts and numbers may mean: all those, and some more. None: it cannot tell."""
        named = {"miner": self.miner, "sector": self.sector, "error": self.error}
        exact = [f"{name}:{value}" for name, value in named.items() if value not in ("", None)]
        meant = Q(words__contains=exact) if exact else Q()
        if len(self.q) >= SHORTEST:
            meant &= self._text_candidates()
        return JobSearch.objects.filter(meant) if meant else None

    def _text_candidates(self) -> Q:
        parts = Func(Value(self.q), function="search_parts", output_field=ArrayField(TextField()))
        words = [f"error:{self.q.lower()}"]
        if self._number is not None:
            words += [f"miner:{self._number}", f"sector:{self._number}"]
        return Q(words__contains=parts) | Q(words__overlap=words)

    @property
    def _number(self) -> int | None:
        """Of a miner or sector."""
        number = self.q.removeprefix("f0").removeprefix("t0")
        return int(number) if number.isascii() and number.isdigit() and int(number) <= MAX_NUMBER else None

    @property
    def active(self) -> bool:
        """Whether anything is filtered at all."""
        return any(self.values().values())

    @property
    def detailed(self) -> bool:
        """Whether it filters by what the page does not show at once."""
        return any(value for name, value in self.values().items() if name not in ("kind", "state", "q"))

    def values(self) -> dict[str, str]:
        """The filters as the address has them, without the page's edge; empty where there is none."""
        times = {"since": self.since, "until": self.until}
        numbers = {"miner": self.miner, "sector": self.sector}
        given = {name: getattr(self, name) for name in ("kind", "state", "worker", "prover", "error", "q")}
        given |= {name: f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else "" for name, at in times.items()}
        given |= {name: "" if number is None else str(number) for name, number in numbers.items()}
        return {name: given[name] for name in FILTERS}

    @property
    def query(self) -> str:
        """This filter as a query string, without the mark."""
        return urlencode({name: value for name, value in self.values().items() if value})

    def url(self, **edge: int) -> str:
        """The query string of this filter with another edge (or, without one, of the newest page)."""
        return "?" + urlencode({name: value for name, value in (self.values() | edge).items() if value})


def _attempts() -> QuerySet[Attempt]:
    """A job's attempts. The second condition always holds; it keeps the database from hashing those of all jobs."""
    return Attempt.objects.filter(job=OuterRef("pk"), partition__lt=OuterRef("partitions"))


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


def _miner(query: QueryDict) -> int | None:
    text = query.get("miner", "").strip()
    return _integer(text.removeprefix("f0").removeprefix("t0") or text, "miner", "must be a miner such as f01000")


def word(query: QueryDict, name: str) -> str:
    """A name as it stands, empty when it is not given. Raises InvalidFilter."""
    text = query.get(name, "").strip()
    if len(text) > MAX_WORD:
        raise InvalidFilter(f"is longer than {MAX_WORD} characters", field=name)
    if "\0" in text:
        raise InvalidFilter("holds a NUL character", field=name)
    return text


def period(query: QueryDict) -> tuple[datetime | None, datetime | None]:
    """`since` and `until`. Raises InvalidFilter."""
    since, until = moment(query, "since"), moment(query, "until")
    if since and until and since > until:
        raise InvalidFilter("is later than until", field="since")
    return since, until


def moment(query: QueryDict, name: str) -> datetime | None:
    """A time, None when it is not given. Raises InvalidFilter."""
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


def whole(query: QueryDict, name: str, must: str = "must be the number of a job") -> int | None:
    """A number from 0 on, None when it is not given. Raises InvalidFilter saying what it must be."""
    return _integer(query.get(name, "").strip(), name, must)


def _integer(text: str, name: str, must: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_NUMBER):
        raise InvalidFilter(must, field=name)
    return int(text)
