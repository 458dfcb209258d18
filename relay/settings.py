"""Django's settings. What an operator may choose comes from the environment (README, "Settings"), under the same name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from relay.databases import database
from relay.env import Environment, SettingsError, generated_secret
from relay.logs import logging_config

BASE_DIR = Path(__file__).resolve().parent.parent
_env = Environment(os.environ)

# What the operator chooses

RELAY_DATA_DIR = _env.directory("RELAY_DATA_DIR", BASE_DIR / "var")
RELAY_DATABASE_URL = _env.secret("RELAY_DATABASE_URL")
RELAY_REDIS_URL = _env.redis_url("RELAY_REDIS_URL")
RELAY_PUBLIC_URL = _env.public_url("RELAY_PUBLIC_URL")
RELAY_TRUSTED_PROXIES = _env.networks("RELAY_TRUSTED_PROXIES")
RELAY_ADMIN_PASSWORD = _env.secret("RELAY_ADMIN_PASSWORD")
RELAY_METRICS_TOKEN = _env.secret("RELAY_METRICS_TOKEN")
RELAY_JOURNAL_SYNC: Literal["second", "always"] = _env.choice("RELAY_JOURNAL_SYNC", ["second", "always"], "second")
RELAY_LOG_FORMAT = _env.choice("RELAY_LOG_FORMAT", ["console", "json"], "console")
RELAY_LOG_LEVEL = _env.choice("RELAY_LOG_LEVEL", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], "INFO")
RELAY_TOKEN_CACHE_MB = _env.whole("RELAY_TOKEN_CACHE_MB", 64, 1, 1_048_576)

_public_host = urlsplit(RELAY_PUBLIC_URL).hostname if RELAY_PUBLIC_URL else None
_https = bool(RELAY_PUBLIC_URL and RELAY_PUBLIC_URL.startswith("https://"))
_loopback = ["localhost", "127.0.0.1", "[::1]"]

DEBUG = _env.flag("RELAY_DEBUG")
ALLOWED_HOSTS = _env.hosts("RELAY_ALLOWED_HOSTS", _loopback)
if _public_host and "*" not in ALLOWED_HOSTS:
    ALLOWED_HOSTS.append(f"[{_public_host}]" if ":" in _public_host else _public_host)

SECRET_KEY = _env.secret("RELAY_SECRET_KEY") or generated_secret(RELAY_DATA_DIR / "secret_key")
if len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 5:
    raise SettingsError(
        "RELAY_SECRET_KEY is too weak. Allowed: at least 50 random characters, or unset to have one made."
    )

# For serve to print: settings are loaded by every command, and only a server should nag.
RELAY_WARNINGS = _env.warnings()

# The application

INSTALLED_APPS = [
    "relay.apps.RelayConfig",
    "relay.tenants",
    "relay.permits",
    "relay.tokens",
    "dashboard",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "servestatic",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "relay.middleware.security_headers",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "relay.urls"
APPEND_SLASH = False  # a wrong address is 404, never a redirect
ASGI_APPLICATION = "relay.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database(RELAY_DATABASE_URL, RELAY_DATA_DIR)}

# Cookies never authenticate the API, and it answers in JSON only; relay/api.py has the rest.
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Token Relay",
    "DESCRIPTION": "Pools of permits for scarce AI compute, and exact token counts.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
}

# People

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Security

SESSION_COOKIE_SECURE = _https
CSRF_COOKIE_SECURE = _https
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [RELAY_PUBLIC_URL] if RELAY_PUBLIC_URL else []
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains: these are not ours to promise for
    "security.W008",  # redirect to https: the proxy that has the certificate does it; on loopback there is none
    "security.W021",  # HSTS preload: likewise a promise for the whole domain
]
if not _https:
    SILENCED_SYSTEM_CHECKS += [
        "security.W004",  # HSTS, secure cookies: served over plain http on loopback until RELAY_PUBLIC_URL says https
        "security.W012",
        "security.W016",
    ]

# Languages and times

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

# Static files, straight from the packages: nothing to collect at a start

STATIC_URL = "/static/"
STATIC_ROOT = None
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
SERVESTATIC_MAX_AGE = 0  # names carry no hash, so browsers ask each time, and get 304
SERVESTATIC_ALLOW_ALL_ORIGINS = False

LOGGING = logging_config(RELAY_LOG_FORMAT, RELAY_LOG_LEVEL)
