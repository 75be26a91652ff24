"""POST /submit/: who may, what becomes of a request, and what each refusal says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from cuzk_web.fleet.models import Job, JobInput, Transition
from cuzk_web.submission.intake import parse
from cuzk_web.submission.models import Usage
from cuzk_web.submission.samples import SAMPLES
from prover.filecoin.request import parse_json

from .conftest import Login
from .facts import START, job

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("people")]

URL = "/submit/"
WINDOW = SAMPLES["window-post"].read()


def upload(browser: Client, content: bytes, **fields: Any) -> HttpResponse:
    return browser.post(URL, {"request": SimpleUploadedFile("request.json", content), **fields})


def changed(**fields: Any) -> bytes:
    """The sample with fields replaced (or, when None, left out)."""
    values = json.loads(WINDOW) | fields
    return json.dumps({name: value for name, value in values.items() if value is not None}).encode()


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403), ("olga", 200), ("ada", 200)])
def test_who_sees_the_form(login: Login, name: str, status: int) -> None:
    assert login(name).get(URL).status_code == status


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403), ("olga", 302), ("ada", 302)])
def test_who_may_submit(login: Login, name: str, status: int) -> None:
    assert upload(login(name), WINDOW).status_code == status
    assert Job.objects.count() == (name in ("olga", "ada"))


def test_a_form_without_its_token_is_refused(people) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people["olga"])
    assert upload(browser, WINDOW).status_code == 403
    assert not Job.objects.exists()


def test_a_request_becomes_a_job_its_input_and_an_event(login: Login) -> None:
    answer = upload(login("olga"), WINDOW)
    one = Job.objects.get()
    assert answer["Location"] == f"/jobs/{one.id}/"
    expected = parse_json(WINDOW)
    assert (one.request_id, one.kind, one.sector_size) == (expected.request_id, "window-post", 2048)
    assert (one.state, one.submitted_by, one.partitions, one.priority) == ("queued", "olga", 1, 3)
    assert bytes(one.request_digest) == expected.digest
    assert bytes(JobInput.objects.get(job=one).request) == expected.canonical
    event = Transition.objects.get(job=one.id)
    assert (event.entity, event.old, event.new) == ("job", "", "queued")
    assert event.detail["submitted_by"] == "olga" and event.detail["request_id"] == expected.request_id


def test_protobuf_is_taken_too(login: Login) -> None:
    assert upload(login("olga"), parse_json(WINDOW).canonical).status_code == 302
    assert bytes(Job.objects.get().request_digest) == parse_json(WINDOW).digest


def test_a_byte_order_mark_is_no_matter(login: Login) -> None:
    assert upload(login("olga"), b"\xef\xbb\xbf" + WINDOW).status_code == 302
    assert bytes(Job.objects.get().request_digest) == parse_json(WINDOW).digest


def test_what_was_downloaded_can_be_submitted_again(login: Login) -> None:
    upload(login("olga"), WINDOW)
    stored = bytes(JobInput.objects.get().request)
    assert parse(stored).digest == parse_json(WINDOW).digest


def test_the_same_request_twice_is_one_job(login: Login) -> None:
    first, second = upload(login("olga"), WINDOW), upload(login("ada"), WINDOW)
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1
    page = login("ada").get(second["Location"]).content.decode()
    assert page  # the message is asked for below, in one browser
    browser = login("ada")
    assert "already" in browser.get(upload(browser, WINDOW)["Location"]).content.decode()


def test_the_same_id_with_other_content_is_refused_with_both_digests(login: Login) -> None:
    upload(login("olga"), WINDOW)
    other = changed(minerId="1001")
    answer = upload(login("olga"), other)
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "request_conflict" in text
    assert parse_json(WINDOW).digest.hex() in text and parse_json(other).digest.hex() in text
    assert Job.objects.count() == 1


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_after_a_failure_the_same_id_makes_a_new_job(login: Login, state: str) -> None:
    upload(login("olga"), WINDOW)
    Job.objects.update(state=state, ended_at=START)
    upload(login("olga"), WINDOW)
    assert sorted(Job.objects.values_list("state", flat=True)) == sorted([state, "queued"])


def test_another_id_can_be_given(login: Login) -> None:
    upload(login("olga"), WINDOW, request_id="my-own-id")
    one = Job.objects.get()
    assert one.request_id == "my-own-id" and bytes(one.request_digest) == parse_json(WINDOW).digest
    assert parse(bytes(JobInput.objects.get().request)).request_id == "my-own-id"


REFUSED = {
    "no json": (b"hello", "invalid_request", "protobuf"),
    "empty": (b"", "invalid_request", "empty"),
    "UTF-16": (WINDOW.decode().encode("utf-16"), "invalid_request", "UTF-16"),
    "a list": (b"[1, 2]", "invalid_request", ""),
    "deep": (b'{"a":' * 100_000, "invalid_request", "objects and lists"),
    "unknown field": (changed(surprise=1), "invalid_request", "surprise"),
    "wrong kind": (changed(proofKind=77), "unsupported_proof", "proof_kind"),
    "another kind": (changed(proofKind="POREP_SEAL_COMMIT"), "invalid_request", "randomness"),
    "wrong size": (changed(sectorSize="3000"), "unsupported_sector_size", "sector_size"),
    "wrong registered proof": (changed(registeredProof="3"), "registered_proof_mismatch", "registered_proof"),
    "no proofs": (changed(vanillaProofs=[]), "wrong_proof_count", "vanilla_proofs"),
    "truncated proof": (changed(vanillaProofs=["AAAA"]), "truncated_vanilla_proof", "vanilla_proofs[0]"),
    "bad randomness": (changed(randomness="/" * 43 + "="), "non_canonical_element", "randomness"),
    "control characters": (changed(requestId="a\u0000b"), "invalid_label", "request_id"),
    "long id": (changed(requestId="x" * 1025), "invalid_label", "1024"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_requests_are_refused_by_code_and_field(login: Login, name: str) -> None:
    content, code, word = REFUSED[name]
    answer = upload(login("olga"), content)
    assert answer.status_code == 400
    error = answer.context["error"]
    assert error["code"] == code
    assert word in f"{error['field']} {error['message']}"
    assert f"<code>{code}</code>" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_hostile_label_stays_text(login: Login) -> None:
    browser = login("olga")
    page = browser.get(upload(browser, changed(requestId="<script>alert(1)</script>"))["Location"])
    assert "<script>alert" not in page.content.decode()
    refused = upload(browser, changed(surprise="x", **{"<b>bold</b>": 1}))
    assert refused.status_code == 400 and "<b>bold" not in refused.content.decode()


def test_no_file_says_so(login: Login) -> None:
    answer = login("olga").post(URL, {})
    assert answer.status_code == 400 and "This field is required" in answer.content.decode()


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_ready_to_submit(login: Login, name: str) -> None:
    browser = login("olga")
    offers = {sample.name: request_id for sample, request_id in browser.get(URL).context["samples"]}
    form = {"sample": name, "request_id": offers[name]}
    answers = [browser.post(URL, form), browser.post(URL, form)]  # a double click
    one = Job.objects.get()
    assert {answer["Location"] for answer in answers} == {f"/jobs/{one.id}/"}
    assert one.request_id == offers[name]
    assert one.partitions == (13 if name == "deadline" else 1)


def test_each_visit_offers_samples_under_new_ids(login: Login) -> None:
    ids = [request_id for _ in range(2) for _, request_id in login("olga").get(URL).context["samples"]]
    assert len(set(ids)) == len(ids) == 2 * len(SAMPLES)


@pytest.mark.parametrize(("name", "request_id"), [("porep", "x"), ("window-post", ""), ("../settings", "x")])
def test_samples_that_are_none(login: Login, name: str, request_id: str) -> None:
    assert login("olga").post(URL, {"sample": name, "request_id": request_id}).status_code == 400
    assert not Job.objects.exists()


# -- quota ------------------------------------------------------------------------------------------------------------


def test_open_jobs_are_limited(login: Login, settings) -> None:
    settings.SUBMISSION_OPEN_JOBS = 2
    job(), job(submitted_by="ada"), job(state="failed", ended_at=START)
    assert upload(login("olga"), WINDOW).status_code == 302
    answer = upload(login("olga"), WINDOW, request_id="one-more")
    assert answer.status_code == 429
    text = answer.content.decode()
    assert "quota_exceeded" in text and "3 open jobs with this one, 2 allowed" in text
    assert not Job.objects.filter(request_id="one-more").exists()
    assert not Transition.objects.filter(detail__request_id="one-more").exists()
    assert upload(login("ada"), WINDOW, request_id="adas").status_code == 302


def test_bytes_a_day_are_limited(login: Login, settings) -> None:
    size = len(parse_json(WINDOW).canonical)
    settings.SUBMISSION_BYTES_A_DAY = 2 * size + 100
    assert [upload(login("olga"), WINDOW, request_id=f"r{n}").status_code for n in range(3)] == [302, 302, 429]
    Usage.objects.update(day=datetime.now(UTC).date() - timedelta(days=1))
    assert upload(login("olga"), WINDOW, request_id="r3").status_code == 302


def test_finding_a_job_costs_no_quota(login: Login, settings) -> None:
    settings.SUBMISSION_OPEN_JOBS = 1
    upload(login("olga"), WINDOW)
    before = Usage.objects.get().bytes
    assert upload(login("olga"), WINDOW).status_code == 302
    assert Usage.objects.get().bytes == before


def test_the_page_says_what_is_used(login: Login) -> None:
    browser = login("olga")
    upload(browser, WINDOW)
    used = browser.get(URL).context["used"]
    assert used.open_jobs == 1 and used.bytes_today == len(parse_json(WINDOW).canonical)
    assert "at most" in browser.get(URL).content.decode()
