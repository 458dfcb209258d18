"""The dashboard's pages."""

from __future__ import annotations

from django.urls import path

from dashboard import views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("pools/", views.new_pool, name="new-pool"),
    path("pools/<str:pool>/capacity/", views.resize, name="resize"),
    path("login/", views.sign_in, name="login"),
    path("logout/", views.sign_out, name="logout"),
    path("theme/", views.theme, name="theme"),
]
