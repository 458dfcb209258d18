"""How tokenizers are loaded beside a running event loop: in daemon threads, again and again until it succeeds."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relay.tokens import prices
from relay.tokens.child import load_in_child
from relay.tokens.registry import ModelSpec
from relay.tokens.sources import Loaded, SourceFault, load

log = logging.getLogger("relay.tokens")

RETRY_FIRST_S = 5.0
RETRY_MOST_S = 300.0


async def load_with_retries(spec: ModelSpec, data_dir: Path, failed: Callable[[str, float], None]) -> Loaded:
    """Loads, and tries again with growing pauses; `failed` is told why, and in how many seconds the next try is."""
    delay = RETRY_FIRST_S
    while True:
        try:
            return await in_daemon_thread(_load, spec, data_dir)
        except Exception as fault:
            wait = delay * random.uniform(0.8, 1.2)
            failed(str(fault), wait)
            log.warning("tokenizer %s: %s Next try in %.0f s.", spec.name, fault, wait)
            await asyncio.sleep(wait)
            delay = min(delay * 2, RETRY_MOST_S)


def _load(spec: ModelSpec, data_dir: Path) -> Loaded:
    prices.warm()
    try:
        loaded = load(spec, data_dir, load_in_child)
        loaded.tokenizer.find_fast()
        return loaded
    finally:
        give_back()


def give_back() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps: of 128 MB after a load 37 are in use. Threads only."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def in_daemon_thread(work: Callable[..., Loaded], *args: Any) -> asyncio.Future[Loaded]:
    """Runs `work` in a thread that a stopping process does not wait for (a hub without network hangs 47 s)."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Loaded] = loop.create_future()

    def settle(result: Loaded | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*args)
        except Exception as fault:
            error = fault
        except BaseException as fault:  # a panic of the tokenizers library is no Exception
            error = SourceFault(f"{type(fault).__name__}: {str(fault)[:300]}")
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            log.debug("a tokenizer was loaded after the server had stopped")

    threading.Thread(target=run, name=f"load {args[0].name}" if args else "load", daemon=True).start()
    return future
