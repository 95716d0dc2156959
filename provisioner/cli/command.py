"""One command of the console script: its help, its arguments, the settings that it reads, and what runs it.

Modules that a command needs are imported when it runs, so that `--help` and completion start fast.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO, TypeVar

from provisioner.api.field_error import FieldError
from provisioner.api.text import printable
from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import until_signalled
from provisioner.settings import Settings, SettingsError, load, read_file

from .arguments import PROGRAM, Parser

if TYPE_CHECKING:
    from .commands.clients import Tools
    from .commands.console import Console
    from .commands.helm_release import ReleaseSettings

T = TypeVar("T")
Act = Callable[["Tools", argparse.Namespace, "Console"], Awaitable[int]]


class CommandLine(NamedTuple):
    """`flags`: values of settings by the name of their flag. `errors`: words that are neither flags nor arguments."""

    command: str
    arguments: argparse.Namespace
    flags: Mapping[str, str]
    errors: tuple[FieldError, ...] = ()


class Command(NamedTuple):
    """`run` returns the exit code; it raises SettingsError, Refused or Signalled.

    `settings`: whether the command accepts the flags of the settings, and whether its help lists them. `acts`: the
    command uses the identity of the settings, which is then required. `azure`: it needs the cluster in Azure. `kube`:
    it connects to the API server; `release`: it reads missing settings from the Helm release there. `of_try`: it is
    part of the second distribution.
    """

    name: str
    summary: str
    description: str
    exit_codes: str
    run: Callable[["Invocation"], int]
    arguments: Callable[[Parser], None] = lambda _: None
    examples: str = ""
    settings: Literal["", "accepted", "listed"] = ""
    acts: bool = True
    azure: bool = True
    kube: bool = False
    release: bool = False
    of_try: bool = False

    @property
    def prefix(self) -> str:
        """The beginning of its errors. Without a command, the flags are settings."""
        return PROGRAM if self.settings == "listed" else f"{PROGRAM} {self.name}"


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of a command. `typed` is the standard input."""

    command: Command
    line: CommandLine
    env: Mapping[str, str]
    typed: TextIO
    out: TextIO
    err: TextIO

    @property
    def arguments(self) -> argparse.Namespace:
        return self.line.arguments

    @property
    def console(self) -> "Console":
        from .commands.console import Console, terminal_prompt

        return Console(self.out, self.err, terminal_prompt(self.typed, self.err))

    def file(self) -> Mapping[str, Any] | None:
        """The settings of `--config`. Raises SettingsError."""
        return read_file(self.arguments.config) if self.arguments.config else None

    def settings(self) -> Settings:
        """The settings. Raises SettingsError with all errors, those of the command line first; Refused as `wait`."""
        return self.settings_and_release()[0]

    def settings_and_release(self) -> tuple[Settings, "ReleaseSettings | None"]:
        """The settings, and what the Helm release has of them; None if it was not read. Raises as `settings`."""
        file, wrong = self.file(), [*self.line.errors]
        release = self._release(file)
        variables = release.variables if release is not None else None
        try:
            settings = self._load(file, variables, azure=self.command.azure)
        except SettingsError as error:
            errors = error.errors if release is None else map(release.explained, error.errors)
            raise SettingsError([*wrong, *errors]) from None
        if wrong:
            raise SettingsError(wrong)
        if release is not None:
            self._warn_of_overridden(settings, release)
        return settings, release

    def _warn_of_overridden(self, settings: Settings, release: "ReleaseSettings") -> None:
        """With an exported variable of another cluster, a command would read and write the wrong one."""
        from .commands.helm_release import overridden

        for line in overridden(settings, release.variables):
            self.err.write(f"warning: {printable(line)}\n")

    def _load(
        self, file: Mapping[str, Any] | None, release: Mapping[str, str] | None = None, *, azure: bool
    ) -> Settings:
        return load(self.line.flags, self.env, file, release, acts=self.command.acts, azure=azure)

    def _release(self, file: Mapping[str, Any] | None) -> "ReleaseSettings | None":
        """What the release has of the settings; None in a Pod and for files.

        It is read even if subscription, resource group and cluster name are given: prices, the Lease and other settings
        are those of the release too.
        """
        if not self.command.release or getattr(self.arguments, "filename", None):
            return None
        from provisioner.operator.config import check_files, in_cluster

        from .commands import helm_release
        from .commands.refusal import Refused

        try:
            own = self._load(file, azure=False)
        except SettingsError:
            return None  # all errors are reported together
        if in_cluster(own, self.env):
            return None
        try:
            check_files(own, self.env)
            return self.wait(helm_release.read_from_cluster(own, self.arguments.release_namespace))
        except (SettingsError, Refused):
            if helm_release.missing(own):
                raise
            return None  # the command reports it

    def wait(self, running: Coroutine[Any, Any, T]) -> T:
        """Run it until it ends or a signal arrives. Raises Refused for an invalid kubeconfig."""
        from provisioner.runtime.kubernetes_sdk import ConfigException

        from .commands.refusal import bad_kubeconfig

        logs.configure(SystemClock(), level="error", stream=self.err)
        try:
            return asyncio.run(until_signalled(running))
        except ConfigException as error:
            raise bad_kubeconfig(error) from None

    def connected(self, act: Act) -> int:
        """Run it with clients of the cluster and of Azure."""
        from provisioner.operator.config import check_files

        settings = self.settings()
        check_files(settings, self.env)
        return self.wait(self._connected(settings, act))

    async def _connected(self, settings: Settings, act: Act) -> int:
        from .commands.clients import open_tools

        async with open_tools(settings) as tools:
            return await act(tools, self.arguments, self.console)
