"""Proofs can be downloaded once they were delivered, requests by operators, both as plain bytes."""

from __future__ import annotations

import uuid

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from cuzk_web.fleet.models import Delivery, JobInput
from cuzk_web.history import views

from .conftest import Login
from .facts import START, done_job, job

pytestmark = pytest.mark.postgres

PROOF = bytes(range(192))


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 200), ("olga", 200), ("ada", 200)])
def test_who_may_download_a_proof(login: Login, name: str, status: int) -> None:
    assert login(name).get(f"/jobs/{done_job().id}/proof").status_code == status


def test_the_proof_is_its_bytes(login: Login) -> None:
    one = done_job(PROOF)
    answer = login("vera").get(f"/jobs/{one.id}/proof")
    assert answer.content == PROOF
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == f'attachment; filename="window-post-{one.id}.local-keys.proof"'
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("state", ["queued", "running", "verifying", "failed", "cancelled"])
def test_no_proof_before_it_is_delivered(login: Login, state: str) -> None:
    one = job(state=state)
    assert login("vera").get(f"/jobs/{one.id}/proof").status_code == 404
    Delivery.objects.create(job=one, proof=PROOF, verified_at=START)  # written, but the job is not done
    assert login("vera").get(f"/jobs/{one.id}/proof").status_code == 404
    assert "Download proof" not in login("vera").get(f"/jobs/{one.id}/").content.decode()


def test_unknown_jobs_have_nothing(login: Login) -> None:
    for what in ("proof", "request"):
        assert login("ada").get(f"/jobs/{uuid.uuid4()}/{what}").status_code == 404


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 403)])
def test_a_request_is_not_for_everybody(login: Login, name: str, status: int) -> None:
    assert login(name).get(f"/jobs/{done_job().id}/request").status_code == status


def test_a_viewer_is_not_offered_the_request(login: Login) -> None:
    page = f"/jobs/{done_job().id}/"
    assert "Download request" not in login("vera").get(page).content.decode()
    assert "Download request" in login("olga").get(page).content.decode()


def test_an_operator_gets_the_request_in_pieces(people, monkeypatch) -> None:
    monkeypatch.setattr(views, "CHUNK", 1000)
    content = bytes(range(256)) * 17
    one = job()
    JobInput.objects.create(job=one, request=content)
    browser = AsyncClient()
    browser.force_login(people["olga"])

    async def download():
        answer = await browser.get(f"/jobs/{one.id}/request")
        return answer, [piece async for piece in answer.streaming_content]

    answer, pieces = async_to_sync(download)()
    assert b"".join(pieces) == content and len(pieces) == 5
    assert answer["Content-Disposition"] == f'attachment; filename="request-{one.id}.pb"'
