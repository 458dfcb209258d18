"""The dashboard's pages."""

from __future__ import annotations

from django.urls import include, path

from dashboard import people, views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("pools/", views.new_pool, name="new-pool"),
    path("pools/-/", views.change_pools, name="change-pools"),  # "-" is no pool's name
    path("pools/<str:pool>/", include("dashboard.pool.urls")),
    path("tokens/", include("dashboard.tokens.urls")),
    path("login/", people.sign_in, name="login"),
    path("logout/", people.sign_out, name="logout"),
    path("password/", people.password, name="password"),
    path("words/<str:language>.<str:version>.json", views.words, name="words"),
    path("theme/", people.theme, name="theme"),
]
