"""The token page's routes, under /tokens/."""

from __future__ import annotations

from django.urls import path

from dashboard.tokens import actions, page

urlpatterns = [
    path("", page.show, name="tokens"),
    path("models/", actions.add_model, name="new-model"),
    path("play/", page.try_out, name="tokens-play"),
]
