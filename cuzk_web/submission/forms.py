"""The two forms of the page: a file, or a sample."""

from __future__ import annotations

from django import forms

from .samples import SAMPLES


class FileForm(forms.Form):
    """A request file, and an id that takes the place of its own."""

    request = forms.FileField(
        label="Request file",
        help_text="SubmitProofRequest in proto3's JSON mapping, or in protobuf.",
        allow_empty_file=True,  # the parser has the better message
        widget=forms.ClearableFileInput(attrs={"accept": ".json,.pb,application/json"}),
    )
    request_id = forms.CharField(
        label="Request id",
        required=False,
        max_length=1024,
        help_text="Empty: the file's own. The same id with the same content finds the job that exists.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class SampleForm(forms.Form):
    """A sample under an id that the page made up: sending the form twice makes one job."""

    sample = forms.ChoiceField(choices=[(name, name) for name in SAMPLES])
    request_id = forms.CharField(max_length=200)
