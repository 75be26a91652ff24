"""Rules and channels in the admin. A channel's address and token can be set there, and never be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from cuzk_web.live.labels import KINDS
from cuzk_web.live.templatetags.cuzk import badge
from prover.errors import CuzkError

from . import delivery
from .conditions import MEANINGS, Condition
from .models import Channel, Format, Rule
from .outbound import ChannelInvalid, check, check_token

if TYPE_CHECKING:
    RuleBase = admin.ModelAdmin[Rule]
    ChannelBase = admin.ModelAdmin[Channel]
    RuleFormBase = forms.ModelForm[Rule]
    ChannelFormBase = forms.ModelForm[Channel]
else:
    RuleBase = ChannelBase = admin.ModelAdmin
    RuleFormBase = ChannelFormBase = forms.ModelForm


class RuleForm(RuleFormBase):
    """With the kinds of proof as a choice."""

    kind = forms.ChoiceField(
        required=False, choices=[("", "all"), *KINDS.items()], help_text="where the condition is of jobs"
    )


@admin.register(Rule)
class RuleAdmin(RuleBase):
    """What to look for."""

    form = RuleForm
    list_display = ("name", "what", "severity_badge", "enabled", "wait", "goes_to")
    list_filter = ("enabled", "severity")
    fieldsets = ((None, {"fields": ("name", "condition", "what", "severity", "enabled", "kind")}),
                 ("Times, in seconds", {"fields": ("seconds", "settle_s", "repeat_s")}))  # fmt: skip
    readonly_fields = ("what",)
    list_prefetch_related = ("channels",)

    @admin.display(description="looks for")
    def what(self, rule: Rule) -> SafeString | str:
        """The condition in words; all of them while none is chosen."""
        if rule.condition in tuple(Condition):
            return MEANINGS[Condition(rule.condition)].text
        lines = ((meaning.name, meaning.text) for meaning in MEANINGS.values())
        return format_html_join("", "<p><b>{}</b>: {}</p>", lines)

    @admin.display(description="severity", ordering="severity")
    def severity_badge(self, rule: Rule) -> SafeString:
        """As on the page of alerts."""
        return badge("failed" if rule.severity == "critical" else "lost", rule.severity)

    @admin.display(description="seconds")
    def wait(self, rule: Rule) -> str:
        """Its own time, or the condition's."""
        return str(rule.wait_s or "–")

    @admin.display(description="channels that name it")
    def goes_to(self, rule: Rule) -> str:
        """Those that name no rule get it, too."""
        return ", ".join(channel.name for channel in rule.channels.all()) or "–"


class ChannelForm(ChannelFormBase):
    """Secrets are typed in and not shown; left empty, they stay as they are."""

    url = forms.CharField(
        label="Address", required=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60}),
        help_text="http:// or https://; for ntfy with the topic at its end. Not shown again; empty: as it is.",
    )  # fmt: skip
    token = forms.CharField(
        required=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60}),
        help_text="sent as Authorization: Bearer. Not shown again; empty: as it is.",
    )  # fmt: skip
    no_token = forms.BooleanField(label="Remove the token", required=False)

    def clean_url(self) -> str:
        """A usable address; the one that is there when nothing was typed in."""
        url = self.cleaned_data["url"].strip() or self.instance.url
        if not url:
            raise ValidationError("An address is needed.")
        return self._checked(lambda: check(url).geturl())

    def clean_token(self) -> str:
        """A usable token; the one that is there when nothing was typed in."""
        token = self.cleaned_data["token"].strip() or self.instance.token
        return self._checked(lambda: check_token(token))

    def clean(self) -> dict[str, Any]:
        """The topic of ntfy, and a token that shall go."""
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("format") == Format.NTFY and cleaned.get("url", "/").endswith("/"):
            self.add_error("url", "For ntfy the address ends with the topic: https://ntfy.sh/TOPIC.")
        if cleaned.get("no_token"):
            cleaned["token"] = ""
        return cleaned

    def _checked(self, use: Any) -> str:
        try:
            return str(use())
        except ChannelInvalid as error:
            raise ValidationError(f"{error.message} ({error.code})") from None


@admin.register(Channel)
class ChannelAdmin(ChannelBase):
    """Where messages go, and a button to try it."""

    form = ChannelForm
    change_form_template = "admin/alerts/channel/change_form.html"
    list_display = ("name", "format", "host", "enabled", "recoveries", "last")
    fieldsets = ((None, {"fields": ("name", "format", "url", "token", "no_token", "enabled", "recoveries", "rules")}),)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Rules as boxes to tick."""
        return super().formfield_for_manytomany(db_field, request, widget=forms.CheckboxSelectMultiple, **kwargs)

    @admin.display(description="last message")
    def last(self, channel: Channel) -> SafeString:
        """What came of the newest message."""
        newest = channel.notification_set.order_by("-created_at").first()
        if newest is None:
            return badge("idle", "none yet")
        if newest.delivered_at is not None:
            return badge("done", "delivered")
        return format_html("{} {}", badge("failed", "given up" if newest.gave_up_at else "waits"), newest.error)

    def get_urls(self) -> list[URLPattern]:
        """With the test's."""
        test = self.admin_site.admin_view(self.test)
        return [path("<int:pk>/test/", test, name="alerts_channel_test"), *super().get_urls()]

    @method_decorator(require_POST)
    def test(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Send a test message now, and say what came of it."""
        channel = get_object_or_404(Channel, pk=pk)
        if not self.has_change_permission(request, channel):
            raise PermissionDenied("Only an administrator may test a channel.")
        try:
            delivery.test(channel)
            words, level = f"{channel.name}: the test message was delivered.", messages.SUCCESS
        except CuzkError as error:
            words, level = f"{channel.name}: {error} ({error.code})", messages.ERROR
        assert isinstance(request.user, User)
        LogEntry.objects.log_actions(
            request.user.pk, [channel], CHANGE, change_message=f"sent a test message. {words}"[:1000],
            single_object=True,
        )  # fmt: skip
        self.message_user(request, words, level)
        return redirect(reverse("admin:alerts_channel_change", args=[pk]))
