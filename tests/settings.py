"""The tests' settings: the project's own, on a fresh data folder and an environment without the developer's RELAY_*."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

for _name in [name for name in os.environ if name.startswith("RELAY_")]:
    del os.environ[_name]
os.environ["RELAY_DATA_DIR"] = tempfile.mkdtemp(prefix="relay-tests-")
atexit.register(shutil.rmtree, os.environ["RELAY_DATA_DIR"], ignore_errors=True)

from relay.settings import *  # noqa: E402, F403

# The tests make many people; how slowly a password is hashed is Django's own affair.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
