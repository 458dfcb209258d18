"""How the relay logs: one line per event on standard error, for people or as JSON. Never keys, never texts."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (RFC 3339 UTC), `level`, `logger`, `message`, and `exception` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for one record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def logging_config(style: str, level: str) -> dict[str, Any]:
    """Django's LOGGING. `style` is `console` or `json`."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "console": {"format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s"},
            "json": {"()": JsonFormatter},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": style}},
        "root": {"handlers": ["stderr"], "level": "WARNING" if level in {"DEBUG", "INFO"} else level},
        "loggers": {
            "relay": {"level": level},
            "dashboard": {"level": level},
            "uvicorn": {"level": "WARNING" if level == "INFO" else level},
            # named, or this configuration would let it propagate again: then uvicorn prepares a line for each request
            "uvicorn.access": {"handlers": [], "propagate": False},
            # its own handlers would mail or print in another shape; 4xx are the callers' affair
            "django": {"handlers": [], "propagate": True},
            "django.request": {"level": "ERROR"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},  # the caller is told; scanners would flood the log
        },
    }
