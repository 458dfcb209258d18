"""Every address of the control plane, under /api/v1/. The data plane's are in relay/asgi.py."""

from __future__ import annotations

from django.urls import path

from relay.permits import live_views, sizing_views, views
from relay.tenants import views as tenants
from relay.tokens import usage_views
from relay.tokens import views as tokens

configuration = [
    path("pools", views.PoolsView.as_view()),
    path("pools/<str:pool>", views.PoolView.as_view()),
    path("pools/<str:pool>/pause", views.PauseView.as_view()),
    path("pools/<str:pool>/resume", views.ResumeView.as_view()),
    path("pools/<str:pool>/drain", views.DrainView.as_view()),
    path("pools/<str:pool>/tenants", views.SharesView.as_view()),
    path("pools/<str:pool>/tenants/<str:tenant>", views.ShareView.as_view()),
    path("pools/<str:pool>/sizing", sizing_views.SizingView.as_view()),
    path("pools/<str:pool>/leases", live_views.LeasesView.as_view()),
    path("pools/<str:pool>/waiters", live_views.WaitersView.as_view()),
    path("pools/<str:pool>/history", live_views.HistoryView.as_view()),
    path("leases/<str:id>/revoke", live_views.RevokeView.as_view()),
    path("waiters/<str:id>/cancel", live_views.CancelView.as_view()),
    path("priority-classes", views.ClassesView.as_view()),
    path("priority-classes/<str:name>", views.ClassView.as_view()),
    path("tenants", tenants.TenantsView.as_view()),
    path("tenants/<str:tenant>", tenants.TenantView.as_view()),
    path("tenants/<str:tenant>/keys", tenants.KeysView.as_view()),
    path("tenants/<str:tenant>/keys/<str:key>", tenants.KeyView.as_view()),
    path("tokens/models", tokens.ModelsView.as_view()),
    path("tokens/models/<path:name>", tokens.ModelDetailView.as_view()),
    path("tokens/usage", usage_views.UsageView.as_view()),
    path("changes", tenants.ChangesView.as_view()),
]
