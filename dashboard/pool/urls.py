"""The pool page's routes, under /pools/NAME/."""

from __future__ import annotations

from django.urls import path

from dashboard.pool import actions, endings, page, sizing_acts

urlpatterns = [
    path("", page.show, name="pool"),
    path("history/", page.history, name="pool-history"),
    path("resize/", actions.resize, name="pool-resize"),
    path("sizing/", sizing_acts.size, name="pool-sizing"),
    path("state/", actions.set_state, name="pool-state"),
    path("tenants/", actions.new_share, name="pool-new-share"),
    path("tenants/<str:tenant>/", actions.put_share, name="pool-share"),
    path("leases/<str:lease>/revoke/", endings.revoke, name="pool-revoke"),
    path("waiters/<str:waiter>/cancel/", endings.cancel, name="pool-cancel"),
    path("delete/", endings.delete, name="pool-delete"),
]
