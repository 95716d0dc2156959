"""Runs the commands of the console script in a simulated world, over its network.

Their caller is `admin`, which the invariants do not check, so stories assert what it wrote.
"""

import asyncio
import dataclasses
import io
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from cloudprovider.azure.checks import AzureChecks
from cloudprovider.azure.client import AzureConfig, StaticToken, build_client, disable_retries
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.azure.subscription import SubscriptionClient
from cloudprovider.checks import Subject
from controllers.model.policy import Policy
from provisioner.cli.command import Act
from provisioner.cli.commands import adopt, gc, release, uninstall
from provisioner.cli.commands.check import print_results
from provisioner.cli.commands.check_kubernetes import kubernetes
from provisioner.cli.commands.clients import Tools
from provisioner.cli.commands.console import Console
from provisioner.cli.commands.cost import cost as run_cost
from provisioner.cli.commands.cost_report import shown as shown_costs
from provisioner.cli.commands.doctor import run as run_doctor
from provisioner.cli.commands.explain import explain as run_explain
from provisioner.cli.commands.explain import target
from provisioner.cli.commands.explain_answer import shown
from provisioner.cli.commands.refusal import Refused
from provisioner.cli.commands.values import print_values
from provisioner.cli.parser import parse
from provisioner.operator import clients
from provisioner.operator.azure import Azure
from provisioner.operator.config import Clients, Config
from provisioner.runtime.compute import inline
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.settings import load
from provisioner.simulator import loop as sim_loop
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.kube.reviews import KINDS, Caller

from .azure_role import QUOTA_ACTIONS, READER_ACTIONS
from .harness import EPOCH, Sim
from .program import kube_client, retail_client
from .vms import Vms

WHO = "admin"
ACTS: dict[str, Act] = {"gc": gc.run, "adopt": adopt.run, "release": release.run, "uninstall": uninstall.run}


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command; `questions` are its prompts."""

    code: int
    out: str
    err: str
    questions: tuple[str, ...]

    def row(self, first: str) -> str:
        """The line of the table that begins with this word."""
        (line,) = [line for line in self.out.splitlines() if line.split()[:1] == [first]]
        return line


async def command(
    sim: Sim,
    name: str,
    *words: str,
    answer: str | None = None,
    policy: Policy | None = None,
    node_pools: bool = True,
    vms: Vms | None = None,
) -> Ended:
    """Run a command to its end. `answer` is the input at a prompt; None: there is no terminal.

    `vms`: the cloud, in place of Azure.
    """
    out, err, questions = io.StringIO(), io.StringIO(), list[str]()

    async def ask(question: str) -> str:
        questions.append(question)
        return answer or ""

    wanted = parse([name, *words]).arguments
    async with AsyncExitStack() as sessions:
        tools = await _tools(sim, sessions, policy or Policy(), node_pools=node_pools, vms=vms)
        try:
            code = await ACTS[name](tools, wanted, Console(out, err, None if answer is None else ask))
        except Refused as refused:
            err.write(refused.printed(f"gpu-provisioner {name}"))
            code = refused.code
    return Ended(code, out.getvalue(), err.getvalue(), tuple(questions))


async def doctor(sim: Sim, *words: str, vms: Vms | None = None) -> Ended:
    """`gpu-provisioner doctor` with these words. `vms`: the cloud, in place of Azure."""
    out, err = io.StringIO(), io.StringIO()
    console, wanted = Console(out, err), parse(["doctor", *words]).arguments
    async with AsyncExitStack() as sessions:
        clients = (await _tools(sim, sessions, Policy(), vms=vms)).clients
        try:
            code = await run_doctor(clients.kube, Policy(), clients.clock, wanted, console, cloud=clients.cloud)
        except Refused as refused:
            err.write(f"{refused.cause}\n{refused.remedy}\n")
            code = refused.code
    return Ended(code, out.getvalue(), err.getvalue(), ())


async def explain(
    sim: Sim,
    *words: str,
    without_azure: str = "",
    actions: frozenset[str] = QUOTA_ACTIONS,
    vms: Vms | None = None,
) -> Ended:
    """`gpu-provisioner explain` with these words.

    `without_azure`: why Azure is not read. `actions`: more rights. `vms`: the cloud, in place of Azure.
    """
    out, err = io.StringIO(), io.StringIO()
    console, wanted = Console(out, err), parse(["explain", *words]).arguments
    async with AsyncExitStack() as sessions:
        sessions.enter_context(_allowed(sim, actions))
        tools = await _tools(sim, sessions, Policy(), vms=vms)
        try:
            about = target(wanted.name, wanted.namespace)
            answer = await run_explain(tools, about, without_azure=without_azure, location="")
            console.print(*shown(answer, wanted.output))
            code = 0
        except Refused as refused:
            err.write(f"{refused.cause}\n{refused.remedy}\n")
            code = refused.code
    return Ended(code, out.getvalue(), err.getvalue(), ())


async def cost(sim: Sim, *words: str) -> Ended:
    """`gpu-provisioner cost` with these words."""
    out, err = io.StringIO(), io.StringIO()
    console, wanted = Console(out, err), parse(["cost", *words]).arguments
    async with AsyncExitStack() as sessions:
        tools = await _tools(sim, sessions, Policy())
        try:
            console.print(*shown_costs(await run_cost(tools, wanted.by, location=""), wanted.output))
            code = 0
        except Refused as refused:
            err.write(f"{refused.cause}\n{refused.remedy}\n")
            code = refused.code
    return Ended(code, out.getvalue(), err.getvalue(), ())


async def check(
    sim: Sim,
    *words: str,
    policy: Policy | None = None,
    location: str = "",
    elect: bool = True,
    besides: frozenset[str] = READER_ACTIONS,
    retail_prices: bool = False,
) -> Ended:
    """`gpu-provisioner check` without its settings. `besides`: permissions in Azure beyond the world's role."""
    out, err = io.StringIO(), io.StringIO()
    wanted = parse(["check", *words]).arguments
    async with AsyncExitStack() as sessions:
        sessions.enter_context(_allowed(sim, besides))
        tools = await _tools(sim, sessions, policy or Policy())
        config = dataclasses.replace(tools.config, elect=elect)
        section, seen = await kubernetes(tools.clients.kube, tools.clients.cloud, config, tools.clients.clock)
        provider, inspector = await _azure(sim, sessions)
        named = msgspec.structs.replace(_config(sim.world.settings.azure), location=location)
        session = await sessions.enter_async_context(_session(sim))
        prices = retail_client(session, tools.clients.clock) if retail_prices else None
        azure_side = await AzureChecks(provider, inspector, named, prices).run(
            Subject(
                claims=seen.claims or (),
                resource_groups=seen.resource_groups,
                sizes=wanted.size,
                max_pools=config.policy.max_agent_pools,
            )
        )
        code = print_results([*section.items, *azure_side.items], wanted, Console(out, err))
    return Ended(code, out.getvalue(), err.getvalue(), ())


async def values(sim: Sim, *words: str, **env: Any) -> Ended:
    """`gpu-provisioner values` with these words, and additional environment variables. Raises Refused."""
    azure = sim.world.settings.azure
    needed = {
        "ARM_SUBSCRIPTION_ID": azure.subscription,
        "ARM_RESOURCE_GROUP": azure.resource_group,
        "AZURE_CLUSTER_NAME": azure.cluster,
    }
    out, err = io.StringIO(), io.StringIO()
    settings = load({}, {**needed, **env}, acts=False)
    wanted = parse(["values", *words]).arguments
    async with AsyncExitStack() as sessions:
        sessions.enter_context(_allowed(sim, READER_ACTIONS))
        named = dataclasses.replace(azure, subscription=settings.subscription_id, cluster=settings.cluster_name)
        provider, inspector = await _azure(sim, sessions, named)
        arm = Azure(AzureChecks(provider, inspector, _config(named)), inspector)
        code = await print_values(arm, settings, wanted, Console(out, err))
    return Ended(code, out.getvalue(), err.getvalue(), ())


@contextmanager
def _allowed(sim: Sim, besides: frozenset[str]) -> Iterator[None]:
    """Extend the caller's permissions in Azure for the duration of a command."""
    before = sim.cloud.settings.actions
    assert before is not None
    sim.cloud.configure(actions=before | besides)
    try:
        yield
    finally:
        sim.cloud.configure(actions=before)


async def _azure(
    sim: Sim, sessions: AsyncExitStack, named: AzureSettings | None = None
) -> tuple[AzureProvider, SubscriptionClient]:
    """`named`: the requested cluster, if it is not the simulated one."""
    config, credential = _config(named or sim.world.settings.azure), StaticToken("simulator")
    session = await sessions.enter_async_context(_session(sim))
    client = build_client(config, disable_retries(session), credential, version="test")
    clock = sim_loop.VirtualClock(asyncio.get_running_loop(), EPOCH)
    return AzureProvider(client, config, clock=clock), SubscriptionClient(client, credential, config)


def _config(settings: AzureSettings) -> AzureConfig:
    return AzureConfig(
        subscription_id=settings.subscription,
        resource_group=settings.resource_group,
        cluster_name=settings.cluster,
        location=settings.location,
    )


async def _tools(
    sim: Sim, sessions: AsyncExitStack, policy: Policy, *, node_pools: bool = True, vms: Vms | None = None
) -> Tools:
    settings = sim.world.settings.azure
    loop, metrics = asyncio.get_running_loop(), Metrics()
    clock = sim_loop.VirtualClock(loop, EPOCH)
    cluster = await sessions.enter_async_context(_session(sim))
    kube = Kube(kube_client(cluster, sim.world.settings.token))
    provider = clients.decorate(vms or (await _azure(sim, sessions))[0], metrics)
    return Tools(
        clients=Clients(
            kube=kube,
            lease_kube=kube,
            provider=provider,
            cloud=vms or AksCloud(),
            clock=clock,
            rng=Random(WHO),
            metrics=metrics,
            compute=inline,
        ),
        config=Config(
            policy=policy,
            elect=True,
            lease_name="gpu-provisioner",
            lease_namespace="kube-system",
            identity=WHO,
            node_pools=node_pools,
        ),
        cluster=f"cluster {settings.cluster} of resource group {settings.resource_group}",
        subscription=settings.subscription,
    )


def _session(sim: Sim) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=sim.world.connector(WHO), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    )


def written(sim: Sim) -> list[str]:
    """The writes of the commands at both systems, as `PATCH nodeclaims/ws1`. Reviews of the own identity and
    permissions are no writes.
    """
    questions = {kind.partition(".")[0] for kind in KINDS}
    calls = [call for call in sim.audit_log.calls(who=WHO) if call.is_write and call.target.kind not in questions]
    return [f"{call.verb} {call.target.kind}/{call.target.name}".rstrip("/") for call in calls]


def known_as(sim: Sim, username: str) -> None:
    """The API server returns this user name for every caller from now on."""
    sim.api.caller = Caller(username)


def unknown(sim: Sim) -> None:
    """The API server returns no user name from now on, as before Kubernetes 1.28."""

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        return web.Response(text="404 page not found", status=404) if call.target.kind == "selfsubjectreviews" else None

    sim.world.before.append(answer)
