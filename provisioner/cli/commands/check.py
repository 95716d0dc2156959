"""`check`: verifies everything that the controller needs, one line each, with a remedy for each failure.

The command writes nothing. The sections do not depend on each other: Azure is checked even if the API server does not
respond. Exit codes: 0 no check failed, 2 invalid usage, 3 a check failed.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack

from cloudprovider.checks import CheckResult, CheckResults, State, Subject, passed
from provisioner.cli.output import encoded
from provisioner.operator.azure import CLOUD, open_azure
from provisioner.operator.clients import open_kube
from provisioner.operator.config import Config, check_files, config_from
from provisioner.operator.prices import unknown_sizes
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.kubernetes_sdk import ConfigException
from provisioner.settings import Settings, SettingsError

from .check_kubernetes import Seen, kubernetes
from .console import Console, Terminal, counted
from .refusal import OK, SELECT_KUBECONFIG

FAILED_CHECK = 3
KUBECONFIG = "KUBECONFIG"
MARKS: dict[State, str] = {"ok": "✓", "failed": "✗", "unknown": "-"}
STYLES: dict[State, str] = {"ok": "green", "failed": "red", "unknown": "yellow"}


async def run(
    settings: Settings | SettingsError, env: Mapping[str, str], wanted: argparse.Namespace, console: Console
) -> int:
    """Run all checks and print the results; returns the exit code. Invalid settings are a result too."""
    configured, broken = configuration(settings, env)
    found = list(configured.items)
    if isinstance(settings, SettingsError):
        found += (*_skipped("kubernetes"), *_skipped("azure"))
        return print_results(found, wanted, console)
    config, seen = config_from(settings), Seen()
    if KUBECONFIG in broken:
        found += _skipped("kubernetes")
    else:
        section, seen = await _kubernetes(settings, config)
        found += section.items
    found += _skipped("azure") if broken - {KUBECONFIG} else await _azure(settings, config, seen, wanted.size)
    return print_results(found, wanted, console)


def configuration(settings: Settings | SettingsError, env: Mapping[str, str]) -> tuple[CheckResults, frozenset[str]]:
    """The results of the section, and the names of the invalid settings."""
    found = CheckResults("configuration")
    errors = [settings] if isinstance(settings, SettingsError) else []
    if isinstance(settings, Settings):
        for warning in (*settings.warnings, *unknown_sizes(CLOUD, settings.prices)):
            found.unknown("settings", f"probably unintended: {warning}")
        try:
            check_files(settings, env)
        except SettingsError as invalid:
            errors.append(invalid)
    for text, why, remedy in (line for error in errors for line in error.lines()):
        found.failed("settings", f"{text}: {why}", remedy)
    if not errors:
        found.ok("settings", "valid; gpu-provisioner config prints them")
    return found, frozenset(one.field for error in errors for one in error.errors)


def _skipped(section: str) -> list[CheckResult]:
    found = CheckResults(section)
    found.unknown("all checks", "skipped: the settings for them are invalid")
    return found.items


async def _kubernetes(settings: Settings, config: Config) -> tuple[CheckResults, Seen]:
    try:
        async with open_kube(settings) as kube:
            return await kubernetes(kube, CLOUD, config, SystemClock())
    except ConfigException as error:
        found = CheckResults("kubernetes")
        found.failed("kubeconfig", str(error), SELECT_KUBECONFIG)
        return found, Seen()


async def _azure(settings: Settings, config: Config, seen: Seen, sizes: Sequence[str]) -> list[CheckResult]:
    async with AsyncExitStack() as open_until_then:
        try:
            arm = await open_until_then.enter_async_context(open_azure(settings))
        except (OSError, ValueError) as error:
            found, why = CheckResults("azure"), getattr(error, "strerror", None) or type(error).__name__
            remedy = "Check SSL_CERT_FILE and the settings of the identity."
            found.failed("credential", f"connection failed: {why}", remedy)
            return found.items
        subject = Subject(
            claims=seen.claims or (),
            resource_groups=seen.resource_groups,
            sizes=sizes,
            max_pools=config.policy.max_agent_pools,
        )
        return (await arm.checks.run(subject)).items


def print_results(found: Sequence[CheckResult], wanted: argparse.Namespace, console: Console) -> int:
    """Print the results; returns the exit code."""
    ok = passed(found)
    if wanted.output == "table":
        console.out.writelines(f"{line}\n" for line in _lines(found, Terminal(console.out)))
    else:
        console.print(encoded({"ok": ok, "results": found}, wanted.output))
    return OK if ok else FAILED_CHECK


def _lines(found: Sequence[CheckResult], terminal: Terminal) -> Iterator[str]:
    section, width = "", max(len(one.check) for one in found)
    for one in found:
        if one.section != section:
            section = one.section
            yield terminal.coloured(section, "bold")
        mark = terminal.coloured(MARKS[one.state], STYLES[one.state])
        yield f"  {mark} {one.check:<{width}}  {terminal.wrapped(one.message, width + 6)}"
        if one.remedy:
            yield f"    {'':<{width}}  {terminal.coloured(terminal.wrapped(one.remedy, width + 6), 'dim')}"
    failed, unknown = (sum(one.state == state for one in found) for state in ("failed", "unknown"))
    rest = f"; {unknown} unknown or unusual" if unknown else ""
    yield ""
    verdict = f"{counted(failed, 'check')} failed{rest}" if failed else f"no check failed{rest}"
    yield terminal.coloured(verdict, "red" if failed else "green")
