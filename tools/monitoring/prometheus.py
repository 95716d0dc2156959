"""A Prometheus process that listens on loopback and stores its data in a given folder, and its HTTP API.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/, docs/references/monitoring.md#tools.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

DIRECTORY = "PROMETHEUS_BIN"
REMEDY = f"install the Debian package `prometheus`, or set {DIRECTORY} to the folder of the programs"
SCRAPE_SECONDS = 1.0
START_SECONDS = 60.0
POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 30.0

Json = dict[str, Any]
Labels = dict[str, str]


class NotInstalled(Exception):
    """A program is missing; the message is one line with the remedy."""


class QueryError(Exception):
    """Prometheus rejects a query; the message is Prometheus' own."""


def binary(name: str, env: Mapping[str, str] = os.environ) -> str:
    """The path of `prometheus` or `promtool`. Raises NotInstalled."""
    folder = env.get(DIRECTORY)
    found = shutil.which(name, path=folder or env.get("PATH"))
    if found is None:
        raise NotInstalled(f"{name} is not {f'in {folder}' if folder else 'on the PATH'}: {REMEDY}")
    return found


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The completed process of promtool with these arguments. Raises NotInstalled."""
    command = [binary("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603


class Prometheus:
    """A process that runs from `start` to `stop`. Times are seconds since the epoch."""

    def __init__(self, home: Path) -> None:
        self._binary = binary("prometheus")
        self._home = home
        self._log = home / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    async def start(self, targets: Sequence[Labels], rules: Sequence[Path] = ()) -> None:
        """Start to scrape the targets: each has its address under `__address__`, and the labels of its series."""
        job = {
            "job_name": "scraped",
            # As usual for kube-state-metrics, whose series have labels such as `namespace` and `pod`.
            "honor_labels": True,
            "static_configs": [
                {"targets": [target["__address__"]], "labels": {k: v for k, v in target.items() if k != "__address__"}}
                for target in targets
            ],
        }
        every = f"{SCRAPE_SECONDS * 1000:.0f}ms"
        settings = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [job],
        }
        configuration = self._home / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(settings), encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - it outlives the event loop
                [
                    self._binary,
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={self._home / 'data'}",
                    "--web.listen-address=127.0.0.1:0",
                    "--log.format=json",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with asyncio.timeout(START_SECONDS):
            while not self._ready():  # noqa: ASYNC110 - only the log shows it
                await asyncio.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Kill the process if it is running."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def instant(self, expression: str, at: float) -> list[Json]:
        """The series of an instant query; a scalar is one series without labels."""
        data = self._get("query", query=expression, time=at)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        return list(data["result"])

    def over(self, expression: str, start: float, end: float, step_seconds: float = 1.0) -> list[Json]:
        """The series of a range query."""
        return list(self._get("query_range", query=expression, start=start, end=end, step=step_seconds)["result"])

    def rules(self) -> list[Json]:
        """All rules, each with the result of its last evaluation."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _ready(self) -> bool:
        text = self._log.read_text(encoding="utf-8")
        if self._process is not None and self._process.poll() is not None:
            raise NotInstalled(f"prometheus failed to start\n{text}")
        listening = re.search(r'"address":"(127\.0\.0\.1:\d+)"[^\n]*"msg":"Listening on"', text)
        self._url = f"http://{listening[1]}" if listening else ""
        return bool(listening) and "Server is ready to receive web requests" in text

    def _get(self, path: str, **arguments: object) -> Json:
        url = f"{self._url}/api/v1/{path}?{urlencode(arguments)}"
        try:
            with urlopen(url, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - an http URL on loopback
                data: Json = json.load(response)["data"]
        except HTTPError as error:
            raise QueryError(json.load(error)["error"]) from None
        return data
