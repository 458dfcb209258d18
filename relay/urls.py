"""Every route that Django answers. The data plane's are in relay/asgi.py, in front of it."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path

from relay.api import nothing_here
from relay.api_urls import configuration
from relay.schema import docs, schema

api = [
    *configuration,
    path("schema", schema),
    path("docs", docs),
    re_path(r"", nothing_here),
]

urlpatterns = [
    path("api/v1/", include(api)),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/", admin.site.urls),
    path("", include("dashboard.urls")),
]

handler400 = "relay.api.bad_request"
