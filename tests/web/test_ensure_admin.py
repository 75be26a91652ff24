"""`manage.py ensure_admin` makes the first account once, and keeps its password to itself."""

from __future__ import annotations

import stat
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import CommandError, call_command

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


def ensure(**options: object) -> str:
    out = StringIO()
    call_command("ensure_admin", stdout=out, **options)
    return out.getvalue().strip()


def test_prints_a_password_that_works() -> None:
    user = authenticate(username="admin", password=ensure())
    assert user is not None and user.is_superuser and user.is_staff


def test_writes_it_to_a_private_file_and_prints_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("left over")
    path.chmod(0o644)
    printed = ensure(password_file=path)
    password = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert password not in printed and len(password) >= 24
    assert authenticate(username="admin", password=password) is not None


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "password"
    ensure(password_file=path)
    before = path.read_text()
    assert "unchanged" in ensure(password_file=path)
    assert path.read_text() == before
    assert authenticate(username="admin", password=before.strip()) is not None


def test_reset_gives_a_new_one() -> None:
    first, second = ensure(), ensure(reset=True)
    assert first != second
    assert authenticate(username="admin", password=first) is None
    assert authenticate(username="admin", password=second) is not None


def test_no_account_without_its_password_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot write the password file"):
        ensure(password_file=tmp_path / "no" / "such" / "folder")
    assert not get_user_model().objects.filter(username="admin").exists()
