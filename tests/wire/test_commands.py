"""`gc`, `explain`, `adopt` and `release` of the installed program over sockets, in pipes and at a terminal."""

import asyncio
import json
import os
import pty
import signal
from typing import Any

import pytest

from controllers.model.confirmation import decode
from provisioner.api import labels
from provisioner.simulator.world import World
from tests.ports import free_port
from tests.stories import run_by
from tests.world.harness import SIZE, node_claim

from .program import PROGRAM, ROOT
from .site import CLAIMS, LEASE, LEASES, NAME, SECONDS, Site, led, ran, run_story

pytestmark = pytest.mark.matrix(quick=0)

OLD = "0a0a0a0a-1111-2222-3333-444444444444"


def orphan(world: World, name: str = NAME) -> None:
    """Create a pool with our marks whose claim is gone, without a machine."""
    marks = {labels.TAG_CLAIM_UID: OLD, labels.TAG_CLAIM_NAME: name}
    world.cloud.seed_pool(name, state="Failed", error={"code": "X", "message": "x"}, vmSize=SIZE, tags=marks)


def confirmed(world: World) -> tuple[str, ...] | None:
    lease = world.store.get(LEASES, LEASE, "kube-system") or {"metadata": {}}
    found = decode((lease["metadata"].get("annotations") or {}).get(labels.CONFIRMED_REMOVALS, ""))
    return None if found is None else found.removals


@run_by(run_story, token="t0ken")
async def test_gc_in_a_pipe(site: Site) -> None:
    """`gc` prints a table, or JSON with -o json, writes nothing to stderr and changes nothing."""
    orphan(site.world)
    ended = await ran("gc", env=site.env())
    assert (ended.code, ended.err) == (0, "")
    head, row, _, verdict, _ = ended.out.splitlines()
    assert head.split() == ["POOL", "CLAIM", "NODE", "CAUSE", "ACTION", "WAITS", "FOR", "SINCE"]
    assert row.split()[:4] == [NAME, "-", "-", "orphan-pool"]
    assert verdict == "1 removal inferred among 1 agent pool, 3 allowed in 10 minutes: not restricted"
    found = json.loads((await ran("gc", "-o", "json", env=site.env())).out)
    assert [removal["pool"] for removal in found["removals"]] == [NAME]
    assert "\x1b" not in ended.out
    assert not [call for call in site.world.audit_log.calls() if call.is_write]


@run_by(run_story, token="t0ken")
async def test_gc_confirms_on_the_lease(site: Site) -> None:
    """`gc --confirm --yes` in a script annotates the Lease and exits with 0."""
    orphan(site.world)
    led(site.world)
    ended = await ran("gc", "--confirm", "--yes", env=site.env())
    assert (ended.code, ended.err) == (0, "")
    assert confirmed(site.world) == (NAME,)


@pytest.mark.parametrize(
    ("answer", "code", "written"),
    [("yes\n", 0, (NAME,)), ("no\n", 1, None), (signal.SIGINT, 130, None), (signal.SIGTERM, 143, None)],
    ids=["yes", "no", "^C", "TERM"],
)
@run_by(run_story, token="t0ken")
async def test_gc_prompts_at_a_terminal(
    site: Site, answer: str | signal.Signals, code: int, written: tuple[str, ...] | None
) -> None:
    """`gc --confirm` prompts at a terminal, accepts a refusal, and ends on a signal with that signal's exit code."""
    orphan(site.world)
    led(site.world)
    mine, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "gc",
        "--confirm",
        cwd=ROOT,
        env=site.env(),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        question = (await process.stderr.readuntil(b"[yes/no]")).decode()
        assert question == "Confirm the 1 removal above? [yes/no]"
        if isinstance(answer, str):
            os.write(mine, answer.encode())
        else:
            process.send_signal(answer)
        _, err = await process.communicate()
    os.close(mine)
    assert (process.returncode, confirmed(site.world)) == (code, written)
    assert b"Traceback" not in err


@run_by(run_story, token="t0ken")
async def test_explain_over_sockets(site: Site) -> None:
    """With the settings of Azure and without them; nothing is written, whatever identity the settings name."""
    site.world.store.create(CLAIMS, node_claim(NAME))
    whole = await ran("explain", f"nodeclaim/{NAME}", env=site.env())
    assert (whole.code, whole.err) == (0, "")
    assert f"Agent pool:  {NAME}, does not exist\n" in whole.out
    part = await ran("explain", NAME, "-o", "json", env=site.env(AZURE_CLUSTER_NAME=""))
    assert (part.code, part.err) == (0, "")
    answer = json.loads(part.out)
    assert (answer["kind"], answer["facts"]["agentPool"]) == ("NodeClaim", f"{NAME}, not read")
    assert answer["unknown"][0].startswith(
        "agent pools, quota and VM sizes of Azure: not read: the Helm release cannot"
    )
    assert not [call for call in site.world.audit_log.calls() if call.is_write]


@run_by(run_story, token="t0ken")
async def test_adopt_and_release_over_sockets(site: Site) -> None:
    """`adopt` annotates a restored claim; `release` refuses a claim whose deletion has just begun."""
    world = site.world
    orphan(world)
    world.store.create(CLAIMS, node_claim(NAME))
    ended = await ran("adopt", NAME, env=site.env())
    assert (ended.code, ended.err) == (0, "")
    claim = world.store.get(CLAIMS, NAME)
    assert claim is not None
    assert claim["metadata"]["annotations"] == {labels.ADOPT: OLD}

    lost: dict[str, Any] = node_claim("lost")
    lost["metadata"]["finalizers"] = [labels.FINALIZER]
    world.store.create(CLAIMS, lost)
    world.store.delete(CLAIMS, "lost")
    arguments = ("release", "lost", "--i-know-the-pool-is-gone")
    ended = await ran(*arguments, env=site.env())
    assert ended.code == 1
    assert "may not be visible yet" in ended.err
    assert world.store.get(CLAIMS, "lost") is not None


@run_by(run_story, token="t0ken")
async def test_commands_without_one_of_the_apis(site: Site) -> None:
    """A command reports a closed port of ARM or of the API server in two lines, without a traceback, and exits
    with 1.
    """
    ended = await ran("gc", env=site.env(ARM_ENDPOINT=f"http://127.0.0.1:{free_port()}"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("gpu-provisioner gc: ARM: ConnectionFailed: ")
    assert len(ended.err.splitlines()) == 2
    kubeconfig = site.home / "kubeconfig"
    port = site.addresses.kube.rpartition(":")[2]
    kubeconfig.write_text(kubeconfig.read_text().replace(f":{port}\n", f":{free_port()}\n"))
    ended = await ran("adopt", "--all", env=site.env())
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("gpu-provisioner adopt: the API server: NoResponse: ")
    assert "    Check the kubeconfig and the network until kubectl version succeeds" in ended.err
