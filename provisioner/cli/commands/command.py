"""Runs one of the commands that do not start a controller: settings, connections, exit codes.

Settings are those of `run`, from flags, environment and file. Exit codes: 0 done, 1 refused or failed, 2 invalid usage
or settings, 3 `check` failed or `uninstall` left only the Lease, 130 or 143 interrupted. A failure is one line for the
cause and one for the remedy on `err`, never a traceback for an error of the user, the API server or ARM.
"""

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from provisioner.runtime import logs
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.signals import Signalled, until_signalled
from provisioner.settings import Settings, SettingsError, load, read_file

from .console import Console, terminal_prompt
from .refusal import USAGE, Refused

if TYPE_CHECKING:
    from .clients import Tools

KUBECONFIG_REMEDY = "Correct the kubeconfig, or name another one with KUBECONFIG."


def run(
    name: str,
    wanted: argparse.Namespace,
    flags: Mapping[str, str],
    env: Mapping[str, str],
    *,
    typed: TextIO,
    out: TextIO,
    err: TextIO,
) -> int:
    """Run the command of that name with its arguments and the flags of settings; returns the exit code."""
    console = Console(out, err, terminal_prompt(typed, err))
    try:
        match name:
            case "plan":
                return _plan(wanted, typed, console)
            case "schedule":
                return _schedule(wanted, typed, console)
            case "check":
                return _check(flags, env, wanted, console)
            case "doctor":
                return _doctor(flags, env, wanted, console)
            case "explain":
                return _explain(flags, env, wanted, typed, console)
            case "values":
                return _values(flags, env, wanted, console)
        return _run(name, _settings(flags, env, wanted), env, wanted, console)
    except Refused as refused:
        return _print(name, refused, console)
    except SettingsError as error:
        err.write(f"gpu-provisioner {name}: {error}\n")
        return USAGE
    except Signalled as signalled:
        return signalled.exit_code


def _settings(
    flags: Mapping[str, str],
    env: Mapping[str, str],
    wanted: argparse.Namespace,
    *,
    acts: bool = True,
    azure: bool = True,
) -> Settings:
    return load(flags, env, read_file(wanted.config) if wanted.config else None, acts=acts, azure=azure)


def _plan(wanted: argparse.Namespace, typed: TextIO, console: Console) -> int:
    # Part of the second distribution.
    from . import plan

    return plan.run(wanted, typed, console)


def _schedule(wanted: argparse.Namespace, typed: TextIO, console: Console) -> int:
    # Not needed by the other commands.
    from . import schedule

    return schedule.run(wanted, typed, console)


def _check(flags: Mapping[str, str], env: Mapping[str, str], wanted: argparse.Namespace, console: Console) -> int:
    """`check` reports invalid settings as one of its results."""
    settings: Settings | SettingsError
    try:
        settings = _settings(flags, env, wanted)
    except SettingsError as error:
        settings = error
    from . import check

    logs.configure(SystemClock(), level="error", stream=console.err)
    return asyncio.run(until_signalled(check.run(settings, env, wanted, console)))


def _doctor(flags: Mapping[str, str], env: Mapping[str, str], wanted: argparse.Namespace, console: Console) -> int:
    """`doctor` reads the API server only, so the settings of Azure may be missing."""
    settings = _settings(flags, env, wanted, acts=False, azure=False)
    from provisioner.runtime.kubernetes_sdk import ConfigException

    logs.configure(SystemClock(), level="error", stream=console.err)
    try:
        return asyncio.run(until_signalled(_examined(settings, wanted, console)))
    except ConfigException as error:
        raise Refused(str(error), KUBECONFIG_REMEDY, USAGE) from None


async def _examined(settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    from provisioner.operator.clients import open_kube
    from provisioner.operator.config import policy_from

    from . import doctor

    async with open_kube(settings) as kube:
        return await doctor.run(kube, policy_from(settings), SystemClock(), wanted, console)


def _explain(
    flags: Mapping[str, str], env: Mapping[str, str], wanted: argparse.Namespace, typed: TextIO, console: Console
) -> int:
    """`explain` reads Azure only if its settings are complete."""
    settings = _settings(flags, env, wanted, acts=False, azure=False)
    from provisioner.runtime.kubernetes_sdk import ConfigException

    from . import explain

    logs.configure(SystemClock(), level="error", stream=console.err)
    try:
        return asyncio.run(until_signalled(explain.run(settings, wanted, typed, console)))
    except ConfigException as error:
        raise Refused(str(error), KUBECONFIG_REMEDY, USAGE) from None


def _values(flags: Mapping[str, str], env: Mapping[str, str], wanted: argparse.Namespace, console: Console) -> int:
    """`values` uses the caller's own login, so the controller's identity may be missing."""
    settings = _settings(flags, env, wanted, acts=False)
    from . import values

    logs.configure(SystemClock(), level="error", stream=console.err)
    return asyncio.run(until_signalled(values.run(settings, wanted, console)))


def _run(name: str, settings: Settings, env: Mapping[str, str], wanted: argparse.Namespace, console: Console) -> int:
    from provisioner.operator.config import check_files
    from provisioner.runtime.kubernetes_sdk import ConfigException

    check_files(settings, env)
    logs.configure(SystemClock(), level="error", stream=console.err)
    try:
        return asyncio.run(until_signalled(_connected(name, settings, wanted, console)))
    except ConfigException as error:
        raise Refused(str(error), KUBECONFIG_REMEDY, USAGE) from None


async def _connected(name: str, settings: Settings, wanted: argparse.Namespace, console: Console) -> int:
    from .clients import open_tools

    async with open_tools(settings) as tools:
        return await act(name, tools, wanted, console)


async def act(name: str, tools: "Tools", wanted: argparse.Namespace, console: Console) -> int:
    """Run the command on open connections; returns the exit code."""
    from . import adopt, gc, release, uninstall

    acts = {"gc": gc.run, "adopt": adopt.run, "release": release.run, "uninstall": uninstall.run}
    try:
        return await acts[name](tools, wanted, console)
    except Refused as refused:
        return _print(name, refused, console)


def _print(name: str, refused: Refused, console: Console) -> int:
    console.err.write(f"gpu-provisioner {name}: {refused.cause}\n    {refused.remedy}\n")
    return refused.code
