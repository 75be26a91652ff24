"""Operations of migrations that run beside provers at work."""

from __future__ import annotations

import time
from typing import Any, Final

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import OperationalError, transaction
from django.db.migrations import RunPython
from psycopg.errors import LockNotAvailable

LOCK_MS: Final = 200  # that others wait behind a statement which waits for its lock
TRIES: Final = 200


class AddIndexAgain(AddIndexConcurrently):
    """Takes what stands there under the name away first: an earlier one, or what an interrupted run has left."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop, then build; neither keeps anybody from writing."""
        schema_editor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{self.index.name}"')
        super().database_forwards(app_label, schema_editor, from_state, to_state)


def between_writers(sql: str, backwards: str) -> RunPython:
    """SQL that needs a table for itself, for a moment: whoever writes is waited for, but nobody waits behind that."""

    def forwards(_apps: Any, schema_editor: Any) -> None:
        for _ in range(TRIES - 1):
            try:
                return _locked(schema_editor, sql)
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
            time.sleep(LOCK_MS / 1000)
        _locked(schema_editor, sql)

    return RunPython(forwards, lambda _apps, schema_editor: schema_editor.execute(backwards))


def _locked(schema_editor: Any, sql: str) -> None:
    connection = schema_editor.connection
    with transaction.atomic(connection.alias), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        cursor.execute(sql)
