"""`manage.py after_restore`: for a database that was restored from a backup, before anybody uses it."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.models import Session
from django.core.management.base import BaseCommand
from django.db import connection, transaction

_LOSE = """SELECT count(*) FILTER (WHERE lose_session(id, 'restored')) FROM (
    SELECT id FROM session WHERE state IN ('', 'starting', 'online') AND id <> site_session()
    ORDER BY started_at FOR UPDATE) AS open"""
_OPEN_COMMANDS = "SELECT id::text FROM command WHERE state IN ('pending', 'taken') ORDER BY requested_at FOR UPDATE"
_REFUSE = "SELECT site_move('command', %s, 'refused', 'restored', jsonb_build_object('outcome', %s::text))"
_ANSWER = "UPDATE command SET outcome = %s, answered_at = state_at WHERE id = %s"
OUTCOME = "the database was restored from a backup"


class Command(BaseCommand):
    """As the owner of the database; may be run again. What the backup holds as done stays done."""

    help = "End the sessions that a restored backup holds: provers, workers, commands, and logins of the page."

    def handle(self, *args: Any, **options: Any) -> None:
        """One transaction: nobody sees half of it."""
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT lock_site()")
            cursor.execute(_LOSE)
            (lost,) = cursor.fetchone()
            cursor.execute(_OPEN_COMMANDS)
            commands = [row[0] for row in cursor.fetchall()]
            for command in commands:
                cursor.execute(_REFUSE, [command, OUTCOME])
                cursor.execute(_ANSWER, [OUTCOME, command])
            logins, _ = Session.objects.all().delete()
        self.stdout.write(f"ended {lost} sessions of provers, {len(commands)} commands, {logins} logins")
