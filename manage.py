#!/usr/bin/env python
"""Django's commands for Token Relay: serve, create_api_key, migrate and the rest."""

from __future__ import annotations

import os
import sys

OLDEST = (3, 11)


def main() -> int:
    """Runs one command. Exit code 2 and one line if a setting is wrong."""
    if sys.version_info < OLDEST:
        print("token-relay: Python 3.11 or newer is needed; this is " + sys.version.split()[0], file=sys.stderr)
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relay.settings")
    try:
        from django.conf import settings
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        print(f"token-relay: {error.name} is not installed. Use `make run`, or .venv/bin/python.", file=sys.stderr)
        return 2

    from relay.env import SettingsError

    try:
        _ = settings.INSTALLED_APPS  # loads the settings: later, Django would hide what is wrong with them
    except SettingsError as error:
        print(f"token-relay: {error}", file=sys.stderr)
        return 2
    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
