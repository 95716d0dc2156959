"""Whole lives on a real API server: requests of a life, CPU, and the latencies of bursts.

Requests are those that the API server's audit log and the simulated ARM received. Watches and the Lease do not depend
on the number of claims and are not counted. A life is creation, Ready, deletion; nothing fails in it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tests.cluster.controlplane import ControlPlane

from .apiserver import CONTROLLER, FIXED_KINDS, Call, Environment, environment
from .figures import Figure, latency
from .stage import AGE_SECONDS, CLAIMS, names

LIVES, BURST = 50, 90
PLURAL = CLAIMS.partition(".")[0]
GONE_SECONDS = 300.0
CALLS_MOST, EVENTS_MOST, ARM_CALLS_MOST = 16, 3, 2.6

Moments = dict[str, datetime]


async def measure(cp: ControlPlane) -> list[Figure]:
    """About three minutes."""
    async with environment(cp) as env:
        lives = await _lives(env)
    async with environment(cp) as env:
        return [*lives, *await _burst(env)]


async def _lives(env: Environment) -> list[Figure]:
    wanted = names("life", LIVES)
    async with env.controller() as controller:
        used, lines = controller.cpu_seconds(), controller.log_lines()
        await env.create(wanted)
        await env.settled(wanted)
        await asyncio.sleep(AGE_SECONDS)
        await env.delete(wanted)
        await env.until(lambda: env.gone >= {*wanted}, GONE_SECONDS, "all are gone")
        used, lines = controller.cpu_seconds() - used, controller.log_lines() - lines
    calls = env.calls()
    requested = _between(_deleted(calls), {name: at for (verb, name), at in env.requested.items() if verb == "DELETE"})
    gone = _between(env.pool_gone, _gone(calls))
    return [
        *_counts(calls, env.arm_calls),
        Figure(
            name=f"CPU, {LIVES} lives",
            unit="s",
            labels=("",),
            predecessor="1.3",
            measured=(used,),
            note=f"{lines / LIVES:.1f} log lines a life",
        ),
        latency(f"claim deleted → pool DELETE, burst of {LIVES}", requested, predecessor="0.41 / 0.99"),
        latency(f"pool gone in ARM → claim gone, burst of {LIVES}", gone, predecessor="25.2", target=(5.0,)),
    ]


async def _burst(env: Environment) -> list[Figure]:
    wanted = names("up", BURST)
    async with env.controller():
        await env.create(wanted)
        await env.settled(wanted)
        await asyncio.sleep(AGE_SECONDS)
        await env.delete(wanted)
        await env.until(lambda: env.gone >= {*wanted}, GONE_SECONDS, "all are gone")
    calls = env.calls()
    put = _between(_created(calls), {name: at for (verb, name), at in env.requested.items() if verb == "PUT"})
    took = (max(_gone(calls).values()) - min(_deleted(calls).values())).total_seconds()
    return [
        latency(f"claim created → PUT, burst of {BURST}", put, predecessor="0.61"),
        Figure(
            name=f"burst of {BURST} deleted: all gone",
            unit="s",
            labels=("",),
            predecessor="32",
            target=(25.0,),
            measured=(took,),
        ),
    ]


def _counts(calls: list[Call], arm_calls: list[str]) -> list[Figure]:
    ours = [call for call in calls if call.user == CONTROLLER and call.kind not in FIXED_KINDS]
    kinds = Counter(f"{call.verb} {call.kind}" for call in ours)
    events = sum(call.kind == "events" for call in ours)
    arm = Counter(arm_calls)
    return [
        Figure(
            name="Kubernetes calls a life, Events included",
            unit="calls",
            labels=("mean",),
            predecessor="9.2",
            target=(CALLS_MOST,),
            measured=(len(ours) / LIVES,),
            asserted=True,
            note=_each(kinds),
        ),
        Figure(
            name="Events a life",
            unit="requests",
            labels=("mean",),
            target=(EVENTS_MOST,),
            measured=(events / LIVES,),
            asserted=True,
        ),
        Figure(
            name="ARM calls a life, with its share of the LISTs",
            unit="calls",
            labels=("mean",),
            predecessor="10.2",
            target=(ARM_CALLS_MOST,),
            measured=(len(arm_calls) / LIVES,),
            asserted=True,
            note=_each(arm),
        ),
    ]


def _each(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count / LIVES:.2f}" for what, count in counts.most_common())


def _created(calls: Iterable[Call]) -> Moments:
    return {call.name: call.at for call in calls if (call.verb, call.kind, call.status) == ("create", PLURAL, 201)}


def _deleted(calls: Iterable[Call]) -> Moments:
    return {call.name: call.at for call in calls if (call.verb, call.kind, call.status) == ("delete", PLURAL, 200)}


def _gone(calls: Iterable[Call]) -> Moments:
    """The last patch of a claim removes its finalizer."""
    patched = sorted(call for call in calls if (call.verb, call.kind, call.status) == ("patch", PLURAL, 200))
    return {call.name: call.at for call in patched}


def _between(earlier: Moments, later: Moments) -> list[float]:
    return [(later[name] - at).total_seconds() for name, at in earlier.items() if name in later]
