"""GET /jobs/: filters in the URL, keyset pages, and every bad parameter a clear 400."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from cuzk_web.fleet.models import Job
from cuzk_web.history import pages
from tests.postgres import Database

from .conftest import Login
from .facts import START, attempt, done_job, job, session, worker

pytestmark = pytest.mark.postgres

URL = "/jobs/"


def numbers(answer) -> list[int]:
    """The jobs that the page lists, in its order."""
    return [one.number for one in answer.context["page"].jobs]


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 200), ("olga", 200), ("ada", 200)])
def test_who_may_see_it(login: Login, name: str, status: int) -> None:
    assert login(name).get(URL).status_code == status
    assert login(name).post(URL).status_code in (status if status != 200 else 405, 405)


def test_empty_states_say_what_to_do(login: Login) -> None:
    assert "No jobs yet" in login("vera").get(URL).content.decode()
    assert reverse("history") == URL
    job()
    assert "No job matches" in login("vera").get(URL + "?q=nothing-like-it").content.decode()


def test_a_row_tells_what_matters(login: Login) -> None:
    done = done_job(request_id="ps-snap-1000-123456", kind="snap-update", partitions=16)
    text = login("vera").get(URL).content.decode()
    for wanted in (
        "SnapDeals",
        "ps-snap-1000-123456",
        "16/16",
        "2.0s",
        "10.0s",
        "2026-11-30 08:00:00",
        f"{done.number}",
    ):
        assert wanted in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=winning-post", {"winning"}),
        ("kind=window-post", {"window", "failed", "old"}),
        ("state=failed", {"failed"}),
        ("state=open", {"window", "old"}),
        ("state=ended", {"winning", "failed"}),
        ("q=WINP", {"winning"}),
        ("q=1000", {"window", "failed"}),
        ("q=f01000", {"window", "failed"}),
        ("q=f077", {"winning"}),
        ("q=4242", {"old"}),
        ("q=wrong_challenge", {"failed"}),
        ("q=%25", set()),  # no wildcard
        ("q=_inpost", set()),
        ("since=2026-11-30T07:00", {"window", "winning", "failed"}),
        ("until=2026-11-30T07:00Z", {"old"}),
        ("since=2026-11-30T07:00&until=2026-11-30T08:00:01%2B00:00", {"window"}),
        ("kind=window-post&state=failed&q=wdpost", {"failed"}),
        ("miner=f01000", {"window", "failed"}),
        ("miner=77", {"winning"}),
        ("miner=0", set()),
        ("sector=4242", {"old"}),
        ("sector=4242&miner=5", {"old"}),
        ("sector=4242&miner=1000", set()),
        ("error=Wrong_Challenge", {"failed"}),
        ("error=wrong", set()),  # the whole code
        ("error=wrong_challenge&q=wdpost-c", {"failed"}),
        ("worker=alpha/0/0", {"winning", "failed"}),
        ("worker=alpha/0/0&state=failed", {"failed"}),
        ("worker=alpha/0", set()),
        ("worker=%27%20OR%201=1", set()),
        ("prover=beta", {"old", "failed"}),
        ("prover=alpha", {"winning", "failed"}),
        ("prover=nobody", set()),
        ("kind=&state=&q=&since=&until=", {"window", "winning", "failed", "old"}),  # the form sends its empty fields
    ],
)
def test_filters(login: Login, query: str, expected: set[str]) -> None:
    later = {"submitted_at": START + timedelta(seconds=5)}
    made = {
        "window": job(number=11, request_id="wdpost-a"),
        "winning": done_job(number=12, request_id="winpost-b", kind="winning-post", miner_id=77, **later),
        "failed": job(
            number=13, request_id="wdpost-c", state="failed", error_code="wrong_challenge", ended_at=START, **later
        ),
        "old": job(
            number=14, request_id="wdpost-d", miner_id=5, sector_number=4242, submitted_at=START - timedelta(days=1)
        ),
    }
    alpha, beta = session("alpha"), session("beta", ended_at=START + timedelta(minutes=1))
    first = worker(alpha)
    attempt(made["winning"], first, {"claimed": 1.0, "done": 2.0})
    attempt(made["failed"], beta, {"pending": 1.0, "lost": 2.0})
    attempt(made["failed"], first, {"claimed": 3.0, "failed": 4.0}, number=2)
    Job.objects.filter(pk=made["old"].pk).update(session=beta)
    found = numbers(login("vera").get(f"{URL}?{query}"))
    assert {name for name, one in made.items() if one.number in found} == expected


@pytest.mark.parametrize(
    "query",
    [
        "kind=porep", "state=dead", "since=yesterday", "since=2026-13-01", "until=9999-12-31T23:59:59-14:00",
        "since=0001-01-01T00:00%2B14:00", "since=2026-11-30&until=2026-11-29", "before=x", "before=-1", "before=1.5",
        "before=99999999999999999999", "after=%D9%A3", "before=9&after=1", "q=a%00b", f"q={'x' * 1025}", "page=2",
        "worker=a%00b", f"prover={'x' * 301}", "miner=f0x", "miner=-1", f"miner={'9' * 20}", "sector=1.5",
        "sector=%D9%A3", "error=a%00", "miner=f0",
        f"{'n' * 3000}=1", "%00=1",
    ],
)  # fmt: skip
def test_a_bad_parameter_is_a_clear_400(login: Login, query: str) -> None:
    answer = login("vera").get(f"{URL}?{query}")
    assert answer.status_code == 400
    text = answer.content.decode()
    name = query.split("=")[0]
    assert "Not understood" in text
    assert name[:100].replace("%00", "") in text or "since" in text


@pytest.mark.parametrize(
    "q", ["'", '"', "\\", "--", "💥", "\u202e", "a" * 1024, "0" * 900, "%", "𝕏" * 200, "\x7f", "f0"]
)
def test_odd_searches_find_nothing_and_break_nothing(login: Login, q: str) -> None:
    job()
    answer = login("vera").get(URL, {"q": q})
    assert answer.status_code == 200 and numbers(answer) == []


def test_pages_are_stable_while_jobs_arrive(login: Login) -> None:
    browser = login("vera")
    first_120 = [job(number=n).number for n in range(1, 121)]
    newest = browser.get(URL)
    seen = numbers(newest)
    job(number=500)
    page = browser.get(URL + newest.context["page"].older)
    seen += numbers(page)
    job(number=501)
    last = browser.get(URL + page.context["page"].older)
    seen += numbers(last)
    assert seen == first_120[::-1]
    assert last.context["page"].older is None
    back = browser.get(URL + last.context["page"].newer)
    assert numbers(back) == numbers(page)
    newer = browser.get(URL + browser.get(URL + back.context["page"].newer).context["page"].newer)
    assert numbers(newer) == [501, 500] and newer.context["page"].newer is None


def test_page_links_keep_the_filter(login: Login) -> None:
    for n in range(1, 53):
        job(number=n, kind="winning-post")
        job(number=1000 + n)
    first = login("vera").get(URL, {"kind": "winning-post", "q": "wdpost", "since": "2026-11-30T07:00"})
    older = first.context["page"].older
    assert f"before={numbers(first)[-1]}" in older and "kind=winning-post" in older and "since=2026-11-30T07" in older
    assert numbers(login("vera").get(URL + older)) == [2, 1]


def test_it_costs_the_same_however_long_the_history_is(login: Login) -> None:
    browser = login("vera")

    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(URL).status_code == 200
        return [query["sql"] for query in captured]

    job()
    few = statements()
    Job.objects.bulk_create(
        Job(number=n, request_id=f"r{n}", request_digest=b"", kind="window-post", sector_size=2048, priority=2,
            partitions=1, submitted_by="olga", submitted_at=START, state_at=START)
        for n in range(1, 400)
    )  # fmt: skip
    many = statements()
    assert len(many) == len(few) <= 13
    assert not any("count(" in sql.lower() for sql in many)


def test_a_search_that_takes_too_long_is_stopped(login: Login, monkeypatch, postgres) -> None:
    monkeypatch.setattr(pages, "SEARCH_LIMIT_MS", 50)
    browser = login("vera")
    with Database(postgres, connection.settings_dict["NAME"]).connect() as other, other.transaction():
        other.execute("LOCK TABLE job IN ACCESS EXCLUSIVE MODE")
        answer = browser.get(URL)
    assert answer.status_code == 503
    assert "search_too_slow" in answer.content.decode()


HOSTILE = {
    "markup": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)',
    "long": "x" * 10_000 + "-tail",
    "rtl": "\u202eevil\u202c",
    "emoji": "🧨" * 300,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_labels_stay_text(login: Login, name: str) -> None:
    job(request_id=HOSTILE[name], kind="<b>kind</b>", submitted_by="<i>me</i>", error_code="<u>code</u>")
    text = login("vera").get(URL).content.decode()
    for tag in ("<script>alert", "<b>kind", "<i>me", "<u>code", '" onmouseover'):
        assert tag not in text
    assert re.search(r'title="[^"]*' + re.escape(HOSTILE[name][-5:].replace('"', "&quot;").replace(">", "&gt;")), text)


def test_two_ids_that_differ_in_their_last_digit_read_differently(login: Login) -> None:
    job(request_id="ps-snap-1000-123456"), job(request_id="ps-snap-1000-123457")
    long = "p" * 400
    job(request_id=long + "6" + long), job(request_id=long + "7" + long)
    text = login("vera").get(URL).content.decode()
    shown = re.findall(r'<span class="label"[^>]*>([^<]*)</span>', text)
    assert len(shown) == len(set(shown)) == 4


def test_quoted_filter_is_kept_in_the_form(login: Login) -> None:
    text = login("vera").get(f"{URL}?q={quote('<b>x')}").content.decode()
    assert "&lt;b&gt;x" in text and "<b>x" not in text
