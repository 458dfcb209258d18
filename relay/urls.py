"""Every route that Django answers. The data plane's are in relay/asgi.py, in front of it."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("relay.api_urls")),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]
