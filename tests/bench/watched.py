"""Runs the controller with a thread that measures every few milliseconds how long the event loop takes to respond.

The program is `gpu-provisioner run`, unchanged; when it ends, the file named by BENCH_STALLS has a JSON list of
[moment, seconds]: the moment on the system's monotonic clock, and the time until the loop ran the callback. The wait
for the interpreter's lock is included, so a stall is never underestimated.
"""

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path

from provisioner.cli.main import main

INTERVAL_SECONDS = 0.005


class _Watched(asyncio.DefaultEventLoopPolicy):
    def __init__(self) -> None:
        super().__init__()
        self.stalls: list[tuple[float, float]] = []

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        threading.Thread(target=self._watch, args=(loop,), daemon=True).start()
        return loop

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while not loop.is_closed():
            sent, answered = time.monotonic(), threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return
            if answered.wait(60.0):
                self.stalls.append((sent, time.monotonic() - sent))
            time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    stalls_file = Path(os.environ.pop("BENCH_STALLS"))
    policy = _Watched()
    asyncio.set_event_loop_policy(policy)
    sys.argv[1:] = ["run"]
    try:
        main()
    finally:
        stalls_file.write_text(json.dumps(policy.stalls), encoding="ascii")
