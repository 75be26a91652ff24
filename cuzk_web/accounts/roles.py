"""Three roles, as groups: who sees, who acts, who administers. Every page asks here.

A role holds everything that the role before it holds. An account without a role sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.apps import apps as loaded_apps
from django.apps.registry import Apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"

MAY_VIEW = "fleet.view_job"
MAY_SUBMIT = "fleet.add_job"
MAY_COMMAND = "fleet.add_command"
MAY_READ_REQUESTS = "fleet.view_jobinput"

_SEEN = (
    "session", "device", "worker", "holding", "job", "attempt", "transition", "sample", "anomaly", "command", "counter",
)  # fmt: skip
_ALERTS = {f"alerts.{verb}_{model}" for verb in ("view", "add", "change", "delete") for model in ("rule", "channel")}
_VIEWER = {f"fleet.view_{model}" for model in _SEEN}
_OPERATOR = _VIEWER | {MAY_SUBMIT, MAY_COMMAND, MAY_READ_REQUESTS, "alerts.view_rule"}
_ADMIN = (
    _OPERATOR
    | _ALERTS
    | {
        "auth.view_user",
        "auth.add_user",
        "auth.change_user",
        "auth.view_group",
        "admin.view_logentry",
        "history.view_retention",
        "history.change_retention",
    }
)
PERMISSIONS: dict[str, set[str]] = {VIEWER: _VIEWER, OPERATOR: _OPERATOR, ADMIN: _ADMIN}

User = AbstractBaseUser | AnonymousUser
View = TypeVar("View", bound=Callable[..., Any])


def allowed(user: User, permission: str) -> bool:
    """Whether an account that is still active holds `permission` (one of the MAY_ constants)."""
    return bool(user.is_active) and bool(getattr(user, "has_perm", lambda _: False)(permission))


def may_view(user: User) -> bool:
    """Whether the account may see pages and follow the live socket."""
    return allowed(user, MAY_VIEW)


def role_not_required(view: View) -> View:
    """Marks a view that every account may use, one without a role too (to log out, say)."""
    view.role_required = False  # type: ignore[attr-defined]
    return view


def install(using: str, apps: Apps = loaded_apps, **_: Any) -> None:
    """Make the groups and give each exactly its permissions. Runs after each migration; changes nothing twice."""
    try:
        groups = apps.get_model("auth", "Group")._default_manager.using(using)
        permissions = apps.get_model("auth", "Permission")._default_manager.using(using)
    except LookupError:  # a partial migration, before auth
        return
    ids = {
        f"{app}.{codename}": pk
        for pk, app, codename in permissions.values_list("pk", "content_type__app_label", "codename")
    }
    for role, wanted in PERMISSIONS.items():
        group, _created = groups.get_or_create(name=role)
        group.permissions.set([ids[name] for name in sorted(wanted) if name in ids])
