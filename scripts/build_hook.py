"""The wheel's build hook: the pages' libraries go into the wheel. A wheel without them is not built."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AssetsHook(BuildHookInterface[Any]):
    """Fetches the files before the wheel is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises AssetsError."""
        spec = importlib.util.spec_from_file_location("assets", Path(self.root) / "scripts" / "assets.py")
        assert spec is not None
        assert spec.loader is not None
        assets = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(assets)
        assets.fetch(Path(self.root))
