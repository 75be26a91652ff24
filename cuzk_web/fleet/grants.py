"""Who may do what to which table. Applied after every `migrate`, so that tables of later migrations are covered.

The prover writes what it owns and never deletes. The web reads it, and has for its own only Django's tables (accounts,
sessions, the admin's log): jobs, commands and losses it changes by functions (sql/*.sql) and in no other way.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.apps import AppConfig, apps
from django.db import DEFAULT_DB_ALIAS, connections

PROVER: dict[str, str] = {
    "session": "SELECT, INSERT, UPDATE",
    "device": "SELECT, INSERT, UPDATE",
    "worker": "SELECT, INSERT, UPDATE",
    "holding": "SELECT, INSERT, UPDATE",
    "attempt": "SELECT, INSERT, UPDATE",
    "counter": "SELECT, INSERT, UPDATE",
    "job": (
        "SELECT, UPDATE (state, state_at, times, reason, detail, moved_by, moved_seq, session_id, lease_epoch,"
        " priority, deadline, started_at, ended_at, partitions_done, error_code, error_message, local_keys, timings)"
    ),
    "job_input": "SELECT",
    "command": (
        "SELECT, UPDATE (state, state_at, times, reason, detail, moved_by, moved_seq, session_id, answered_at, outcome)"
    ),
    "transition": "SELECT, INSERT",
    "sample": "SELECT, INSERT",
    "anomaly": "SELECT, INSERT",
    "proof": "SELECT, INSERT",
    "delivery": "SELECT, INSERT",
    "mirror": "SELECT",
}
WEB_READS = (*PROVER, "job_search", "django_migrations")


def apply(tables: Iterable[str], using: str = DEFAULT_DB_ALIAS) -> None:
    """Take all rights from both groups, and give those of this module; `tables` are those of the web."""
    statements = [f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}" for role in ("cuzk_prover", "cuzk_web")]
    statements += [f"GRANT {rights} ON {table} TO cuzk_prover" for table, rights in PROVER.items()]
    present = _present(using)  # of later migrations some tables may be missing
    statements += [f"GRANT SELECT ON {table} TO cuzk_web" for table in WEB_READS if table in present]
    statements += [f'GRANT SELECT, INSERT, UPDATE, DELETE ON "{table}" TO cuzk_web' for table in tables]
    statements += ["GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO cuzk_prover, cuzk_web"]
    statements += ["REVOKE ALL ON SEQUENCE job_number FROM cuzk_prover, cuzk_web"]
    with connections[using].cursor() as cursor:
        cursor.execute(";\n".join(statements))


def web_tables() -> set[str]:
    """The tables of every application but this one."""
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table for model in models if model._meta.app_label != "fleet"}


def after_migrate(sender: AppConfig, using: str, **_more: object) -> None:
    """Receiver of `post_migrate`. When migrations ran backwards, tables may be missing."""
    present = _present(using)
    if "mirror" in present:
        apply(sorted(web_tables() & present), using)


def _present(using: str) -> set[str]:
    return set(connections[using].introspection.table_names(include_views=True))
