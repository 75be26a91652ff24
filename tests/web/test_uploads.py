"""Uploads go to disk, are bounded by their announced length, and large ones are read by a process of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, TemporaryUploadedFile
from django.db import connection
from django.test import Client

from cuzk_web.fleet.models import Job
from cuzk_web.submission import child, views
from cuzk_web.submission.samples import SAMPLES

from .conftest import Login, person

pytestmark = pytest.mark.postgres

URL = "/submit/"
WINDOW = SAMPLES["window-post"].read()


def file_of(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("request.json", content)


def test_a_body_over_the_limit_is_refused_before_it_is_read(login: Login, settings) -> None:
    settings.SUBMISSION_MAX_BYTES = 100_000
    answer = login("olga").post(URL, {"request": file_of(b"x" * 200_000)})
    assert answer.status_code == 413
    text = answer.content.decode()
    assert "request_too_large" in text and "97.7 KiB allowed" in text


def test_other_pages_take_no_large_body_either(db, settings) -> None:
    settings.SUBMISSION_MAX_BYTES = 100_000
    assert Client().post("/accounts/login/", {"f": file_of(b"x" * 200_000)}).status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "1e3"])
def test_a_length_that_is_none(db, length: str) -> None:
    assert Client().generic("POST", "/accounts/login/", b"", CONTENT_LENGTH=length).status_code == 400


def test_a_file_lies_on_disk_while_it_is_read(login: Login, monkeypatch) -> None:
    seen: list[object] = []

    def spy(form, by):
        file = form.cleaned_data["request"]
        seen.append((type(file), os.path.exists(file.temporary_file_path())))
        raise child.SubmissionBusy

    monkeypatch.setattr(views, "_admit", spy)
    answer = login("olga").post(URL, {"request": file_of(WINDOW)})
    assert seen == [(TemporaryUploadedFile, True)]
    assert answer.status_code == 503 and "submission_busy" in answer.content.decode()


@pytest.mark.parametrize("name", ["", "sam", "vera"])
def test_nothing_is_written_for_who_may_not_submit(login: Login, name: str, settings, tmp_path: Path) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    tmp_path.chmod(0o500)
    made: list[Path] = []
    original = TemporaryUploadedFile.__init__
    TemporaryUploadedFile.__init__ = lambda self, *a, **k: (made.append(tmp_path), original(self, *a, **k))[1]
    try:
        assert login(name).post(URL, {"request": file_of(WINDOW)}).status_code in (302, 403)
        assert made == []
    finally:
        TemporaryUploadedFile.__init__ = original
        tmp_path.chmod(0o700)


@pytest.mark.django_db(transaction=True)
def test_a_large_request_is_admitted_by_a_child(monkeypatch) -> None:
    monkeypatch.setattr(views, "IN_PROCESS", 1000)
    browser = Client()
    browser.force_login(person("olga"))
    first = browser.post(URL, {"request": file_of(WINDOW), "request_id": "large"})
    again = browser.post(URL, {"request": file_of(WINDOW), "request_id": "large"})
    one = Job.objects.get()
    assert first["Location"] == again["Location"] == f"/jobs/{one.id}/"
    assert (one.request_id, one.submitted_by) == ("large", "olga")
    values = json.loads(WINDOW) | {"sectorSize": "3000"}
    refused = browser.post(URL, {"request": file_of(json.dumps(values).encode())})
    assert refused.status_code == 400
    assert refused.context["error"]["code"] == "unsupported_sector_size"
    assert refused.context["error"]["field"] == "sector_size"


@pytest.mark.django_db(transaction=True)
def test_names_that_begin_with_a_dash_are_no_options_of_the_child(monkeypatch) -> None:
    monkeypatch.setattr(views, "IN_PROCESS", 1000)
    browser = Client()
    user = person("olga")
    user.username = "-o"
    user.save()
    browser.force_login(user)
    browser.post(URL, {"request": file_of(WINDOW), "request_id": "--request-id"})
    one = Job.objects.get()
    assert (one.request_id, one.submitted_by) == ("--request-id", "-o")


@pytest.fixture
def no_room(transactional_db: None) -> Iterator[None]:
    """The database refuses new jobs, as it does when its disk is full."""
    refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$"
    with connection.cursor() as cursor:
        cursor.execute(f"{refuse}; CREATE TRIGGER refuse BEFORE INSERT ON job EXECUTE FUNCTION refuse()")
        yield
        cursor.execute("DROP TRIGGER refuse ON job; DROP FUNCTION refuse")


@pytest.mark.parametrize("large", [False, True])
def test_what_the_database_refuses_is_told_by_a_child_too(no_room: None, monkeypatch, large: bool) -> None:
    monkeypatch.setattr(views, "IN_PROCESS", 1000 if large else 1 << 20)
    browser = Client(raise_request_exception=False)
    browser.force_login(person("olga"))
    answer = browser.post(URL, {"request": file_of(WINDOW)})
    assert (answer.status_code, "database_disk_full" in answer.content.decode()) == (507, True)
    assert not Job.objects.exists()


def test_a_child_that_dies_is_an_error_that_says_so(login: Login, monkeypatch) -> None:
    monkeypatch.setattr(views, "IN_PROCESS", 1000)
    monkeypatch.setattr(child.sys, "executable", "/bin/false")
    answer = login("olga").post(URL, {"request": file_of(WINDOW)})
    assert answer.status_code == 500
    assert answer.context["error"]["code"] == "submission_failed"
    assert not Job.objects.exists()


def test_who_waits_too_long_is_told_to_come_back(login: Login, monkeypatch) -> None:
    monkeypatch.setattr(views, "IN_PROCESS", 1000)
    monkeypatch.setattr(child, "WAIT", 0.05)
    for _ in range(child.AT_ONCE):
        assert child._places.acquire(blocking=False)
    try:
        answer = login("olga").post(URL, {"request": file_of(WINDOW)})
    finally:
        for _ in range(child.AT_ONCE):
            child._places.release()
    assert answer.status_code == 503 and answer.context["error"]["code"] == "submission_busy"
