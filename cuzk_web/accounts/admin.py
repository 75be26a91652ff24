"""Accounts in the admin. An administrator gives roles; only a superuser makes superusers or touches one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.forms import CheckboxSelectMultiple
from django.http import HttpRequest

from cuzk_web.readonly import ReadOnly, one_of

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]  # takes no parameter when it runs
    """Name, password, whether active, and roles."""

    list_display = ("username", "roles", "is_active", "last_login")
    list_filter = ("is_active", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Rights", {"fields": ("is_active", "groups", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Roles as boxes to tick."""
        return super().formfield_for_manytomany(db_field, request, widget=CheckboxSelectMultiple, **kwargs)

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        """The account's roles."""
        names = [group.name for group in user.groups.all()]
        return ", ".join(["superuser"] * user.is_superuser + names) or "none: sees nothing"

    def get_queryset(self, request: HttpRequest) -> Any:
        """With the roles, in one more statement."""
        return super().get_queryset(request).prefetch_related("groups")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The flag of superusers is theirs to give."""
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who is no superuser cannot touch one: he could give himself its password."""
        if obj is not None and obj.is_superuser and not request.user.is_superuser:
            return False
        return super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: an account is deactivated, and what it did stays its own."""
        return False


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnly):
    """The audit: who did what in the admin, and who commanded which worker."""

    list_display = ("action_time", "user", "content_type", "object_repr", "change_message")
    list_filter = (one_of("action_flag", {1: "addition", 2: "change", 3: "deletion"}),)
    search_fields = ("=object_id", "=user__username")
    list_select_related = ("user", "content_type")
