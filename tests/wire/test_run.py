"""`gpu-provisioner run` as a process: environment variables, probes, metrics, logs, signals and the Lease."""

import asyncio
import base64
import contextlib
import json
import re
import signal
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.ports import free_port
from tests.stories import run_by
from tests.world.claims import LOG_OF_A_LIFE
from tests.world.harness import node_claim

from .program import PROGRAM, ROOT, RunningProgram, ended, environment, started
from .site import CLAIMS, LEASES, NAME, SECONDS, Controller, Site, fetch, run, run_story

pytestmark = pytest.mark.usefixtures("abandoned")

CANARY = "c4nary-t0ken-0123456789abcdef"


def families(metrics: str) -> dict[str, str]:
    """Metric families and their types."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", metrics, re.MULTILINE))


def sample(metrics: str, series: str) -> float:
    (value,) = re.findall(rf"^{re.escape(series)} (\S+)$", metrics, re.MULTILINE)
    return float(value)


# --- its life --------------------------------------------------------------------------------------------------------


@pytest.mark.matrix(quick=0)
@run_by(run_story, token=CANARY)
async def test_a_deployment_of_azure_gpu_provisioner_works_unchanged(site: Site) -> None:
    """A deployment with the environment of Azure/gpu-provisioner serves a claim, its probes, metrics and log, and exits
    with 0 on SIGTERM; the token of the API server appears nowhere.
    """
    async with run(site, env=site.env(HTTPS_PROXY=f"http://user:{CANARY}@127.0.0.1:9", NO_PROXY="127.0.0.1")) as it:
        lease = site.lease()["spec"]
        assert lease["holderIdentity"]
        assert lease["leaseDurationSeconds"] == 30
        site.world.store.create(CLAIMS, node_claim(NAME))
        await site.until(lambda: site.conditions().get("Ready") == "True", "the claim is Ready")
        health, metrics = f"http://127.0.0.1:{site.health}", f"http://127.0.0.1:{site.metrics}/metrics"
        assert await fetch(f"{health}/healthz", f"{health}/readyz", f"{health}/readyz?verbose") == [
            (200, "ok\n"),
            (200, "ok\n"),
            (
                200,
                "".join(f"[+]{name} ok\n" for name in ("claims", "nodes", "crd", "cluster", "lease", "shutdown"))
                + "readyz check passed\n",
            ),
        ]
        ((status, exposed),) = await fetch(metrics)
        assert status == 200
        check_metrics(exposed)
        await site.listed()
        written = json.dumps(site.world.store.list(CLAIMS) + site.world.store.list("events"))
        site.world.store.delete(CLAIMS, NAME)
        await site.until(lambda: site.world.store.get(CLAIMS, NAME) is None, "the claim is gone")
        assert await it.end(signal.SIGTERM) == 0
        assert site.lease()["spec"]["holderIdentity"] == ""
        check_log(it)
        for text in (*it.lines, exposed, written):
            assert CANARY not in text
            assert base64.b64encode(CANARY.encode()).decode() not in text


def check_metrics(exposed: str) -> None:
    """Check the families of Karpenter, of controller-runtime and our own, and their values."""
    found = families(exposed)
    wanted = {
        "karpenter_cloudprovider_duration_seconds": "histogram",
        "karpenter_cloudprovider_errors_total": "counter",
        "workqueue_depth": "gauge",
        "workqueue_adds_total": "counter",
        "controller_runtime_reconcile_total": "counter",
        "controller_runtime_reconcile_time_seconds": "histogram",
        "leader_election_master_status": "gauge",
        "client_go_request_total": "counter",
        "process_resident_memory_bytes": "gauge",
        "gpu_provisioner_arm_rate_limit_tokens": "gauge",
        "gpu_provisioner_arm_rate_limit_wait_seconds": "gauge",
        "gpu_provisioner_arm_throttled_total": "counter",
        "gpu_provisioner_cache_objects": "gauge",
        "gpu_provisioner_events_sent_total": "counter",
        "gpu_provisioner_removal_candidates": "gauge",
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert not [name for name in found if name.endswith("_created")]
    assert sample(exposed, 'leader_election_master_status{name="gpu-provisioner-leader-election"}') == 1.0
    assert sample(exposed, 'workqueue_depth{controller="nodeclaim",name="nodeclaim"}') == 0.0
    passes = re.findall(
        r'^controller_runtime_reconcile_total\{controller="([^"]+)",result="(\w+)"\}', exposed, re.MULTILINE
    )
    assert ("nodeclaim.lifecycle", "requeue_after") in passes, passes
    assert 0.0 < sample(exposed, 'gpu_provisioner_arm_rate_limit_tokens{bucket="aks"}') <= 58.0
    assert 0.0 < sample(exposed, 'gpu_provisioner_arm_rate_limit_tokens{bucket="aks-put"}') < 19.0
    assert sample(exposed, 'gpu_provisioner_arm_rate_limit_wait_seconds{bucket="arm-reads"}') == 0.0
    assert sample(exposed, 'gpu_provisioner_cache_objects{resource="nodeclaims"}') == 1.0
    created = re.findall(r"^karpenter_cloudprovider_duration_seconds_count\{.*Create.*\} (\S+)$", exposed, re.MULTILINE)
    assert [float(count) for count in created] == [1.0]


def check_log(it: Controller) -> None:
    """Check that each line is a JSON object, that reconciles have controller, claim and id, and that a life is logged
    in order.
    """
    for line, entry in zip(it.lines, it.log, strict=True):
        assert list(entry)[:4] == ["level", "time", "logger", "message"], line
        assert entry["level"] in {"INFO", "WARNING"}, line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
    passes = [entry for entry in it.log if "reconcileID" in entry]
    assert {(entry["controller"], entry["key"]) for entry in passes} == {("nodeclaim", NAME)}
    # With Karpenter's keys, so that searches for its log work; once the claim is gone there is no name.
    about = {"controllerGroup": "karpenter.sh", "controllerKind": "NodeClaim", "namespace": "", "name": NAME}
    named = [entry for entry in passes if "NodeClaim" in entry]
    assert len(named) > len(passes) / 2
    assert all(entry["NodeClaim"] == {"name": NAME} and entry.items() >= about.items() for entry in named)
    messages = [entry["message"] for entry in passes if entry["level"] == "INFO"]
    assert messages == LOG_OF_A_LIFE


@run_by(run_story)
async def test_flags_override_variables(site: Site) -> None:
    """Karpenter's flags override variables, with one dash or two; a flag without effect is logged once."""
    metrics, health = free_port(), free_port()
    arguments = ["run", f"--metrics-port={metrics}", "-health-probe-port", str(health), "--log-level=debug"]
    arguments += ["--leader-election-name", "other", "--enable-profiling"]
    async with run(site, *arguments, env=site.env()) as it:
        assert site.lease("other")["spec"]["holderIdentity"]
        answers = await fetch(f"http://127.0.0.1:{health}/healthz", f"http://127.0.0.1:{metrics}/metrics")
        assert [status for status, _ in answers] == [200, 200]
        with pytest.raises(aiohttp.ClientConnectorError):
            await fetch(f"http://127.0.0.1:{site.metrics}/metrics")
        assert await it.end(signal.SIGINT) == 0
        notes = [entry["message"] for entry in it.log if "ENABLE_PROFILING" in entry["message"]]
        assert len(notes) == 1


def test_proxies_are_bypassed() -> None:
    """AKS injects proxies into pods: the API server is always reached directly, ARM as NO_PROXY states."""
    met: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append((await reader.readline()).decode())
        writer.close()

    async def story(site: Site) -> None:
        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        proxies = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"), address)
        async with run(site, env=site.env(**proxies, NO_PROXY="127.0.0.1,localhost,.svc")) as it:
            await site.until(site.lists, "ARM is listed")
            assert await it.end(signal.SIGTERM) == 0
        assert met == []
        server.close()

    run_story(story)


# --- its end ---------------------------------------------------------------------------------------------------------


@run_by(run_story)
async def test_a_replica_that_does_not_lead_is_ready(site: Site, tmp_path: Path) -> None:
    """A standby replica is ready, because its caches are synced: a rollout proceeds, and a PodDisruptionBudget counts
    it.
    """
    async with run(site, env=site.env()) as leader:
        holder = site.lease()["spec"]["holderIdentity"]
        assert holder.startswith(f"{socket.gethostname()}_")
        metrics, health = free_port(), free_port()
        env = site.env(METRICS_PORT=str(metrics), HEALTH_PROBE_PORT=str(health))
        with started(tmp_path / "follower", "run", env=env) as follower:
            await asyncio.to_thread(follower.until, '"new leader observed"')
            await ready(health)
            assert site.lease()["spec"]["holderIdentity"] == holder
            follower.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(follower.end) == 0
        assert await leader.end(signal.SIGTERM) == 0


async def ready(port: int) -> None:
    """Wait until the readiness probe succeeds."""
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                ((status, _),) = await fetch(f"http://127.0.0.1:{port}/readyz")
                if status == 200:
                    return
            await asyncio.sleep(0.05)


async def changed(url: str) -> list[tuple[int, str]]:
    """The first response that is not 200."""
    async with asyncio.timeout(SECONDS):
        while True:
            answers = await fetch(url)
            if answers[0][0] != 200:
                return answers
            await asyncio.sleep(0.02)


@run_by(run_story)
async def test_without_the_crd_it_is_not_ready(site: Site) -> None:
    """Without the CRD the readiness probe fails and names the CRD and its chart; the process does not restart."""
    async with run(site, env=site.env()) as it:
        await ready(site.health)
        site.world.store.delete("customresourcedefinitions.apiextensions.k8s.io", CLAIMS)
        health = f"http://127.0.0.1:{site.health}"

        assert await changed(f"{health}/readyz/crd") == [
            (503, f"{CLAIMS} is not installed: install the chart gpu-provisioner-crd\n")
        ]
        assert await fetch(f"{health}/healthz") == [(200, "ok\n")]
        assert await it.end(signal.SIGTERM) == 0


@pytest.mark.matrix(quick=0)
@run_by(run_story)
async def test_it_is_not_ready_while_it_terminates(site: Site) -> None:
    """While the release of the Lease waits for an API server that does not answer, the readiness probe fails."""
    async with run(site, env=site.env()) as it:
        await ready(site.health)
        site.world.before.append(silence)
        it.process.send_signal(signal.SIGTERM)
        assert await changed(f"http://127.0.0.1:{site.health}/readyz") == [
            (503, "shutdown: the process is shutting down\n")
        ]
        assert await it.end() == 0
        assert any(entry["message"] == "failed to release the lease" for entry in it.log)


@run_by(run_story)
async def test_a_second_signal_ends_it_at_once(site: Site) -> None:
    """While the release of the Lease waits for an API server that does not answer, a second signal ends the process."""
    async with run(site, env=site.env()) as it:
        site.world.before.append(silence)
        assert await it.end(signal.SIGTERM, signal.SIGTERM) == 128 + signal.SIGTERM
        assert site.lease()["spec"]["holderIdentity"]


async def silence(call: Call, _: web.Request) -> web.StreamResponse | None:
    """Never answer."""
    if call.system == "kube":
        await asyncio.sleep(60)
    return None


@pytest.mark.matrix(quick=0)
@run_by(run_story)
async def test_a_leader_that_loses_the_lease_ends(site: Site) -> None:
    """When another process holds the Lease, it exits with 1; the last line has cause and remedy, and there is no
    traceback.
    """
    async with run(site, env=site.env()) as it:
        usurped = {"spec": {**site.lease()["spec"], "holderIdentity": "usurper"}}
        site.world.store.patch(LEASES, site.lease()["metadata"]["name"], usurped, namespace="kube-system")
        assert await it.end() == 1
        await asyncio.sleep(0.1)
        last = it.log[-1]
        assert (last["level"], last["message"]) == ("ERROR", "stopped: leadership was lost")
        assert last["error"] == "lease kube-system/gpu-provisioner-leader-election: it is held by usurper"
        assert last["remedy"]
        assert "Traceback" not in "".join(it.lines)
        assert site.lease()["spec"]["holderIdentity"] == "usurper"


@run_by(run_story)
async def test_a_port_in_use_is_named(site: Site) -> None:
    """A port in use ends the process with exit code 1 and one line that names the port."""
    taken = await asyncio.start_server(lambda *_: None, "0.0.0.0", site.metrics)
    process = await asyncio.create_subprocess_exec(
        PROGRAM, env=site.env(), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    last = json.loads(err.splitlines()[-1])
    assert last["message"] == "stopped: cannot listen"
    assert str(site.metrics) in last["error"]
    assert last["remedy"] == "set METRICS_PORT and HEALTH_PROBE_PORT"
    assert b"Traceback" not in err
    taken.close()


# --- how it does not begin -------------------------------------------------------------------------------------------


def refused(home: Path, **env: str) -> str:
    """The stderr of a start with only these variables: exit code 2, nothing on stdout, no traceback."""
    running: RunningProgram = ended(home, "run", env=environment(home, **env))
    assert (running.process.returncode, running.out) == (2, ""), running.err
    assert "Traceback" not in running.err
    return running.err


AZURE = {
    "ARM_SUBSCRIPTION_ID": "11111111-2222-3333-4444-555555555555",
    "ARM_RESOURCE_GROUP": "rg",
    "AZURE_CLUSTER_NAME": "aks",
    "ARM_ENDPOINT": "http://127.0.0.1:9",
}


def test_invalid_settings_are_reported_at_once(tmp_path: Path) -> None:
    """All invalid settings are reported in one message, each with its remedy."""
    wrong = {
        "ARM_SUBSCRIPTION_ID": "",
        "METRICS_PORT": "70000",
        "AZURE_ENVIRONMENT": "moon",
        "ARM_ENDPOINT": "http://arm",
    }
    message = refused(tmp_path, **{**AZURE, **wrong}, DEPLOYMENT_MODE="self-hosted")
    assert message.startswith("gpu-provisioner: 7 settings are invalid:\n")
    for name in (*wrong, "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        assert re.search(rf"^  (\w+, )*{name}(, \w+)*(=\S+)?: .+\n    .+$", message, re.MULTILINE), name


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, r"KUBECONFIG=\S+: there is no such file\n    Set it to"),
        (f"token: [{CANARY}", r"kubeconfig \S+ is not valid \(ParserError\)\n    Correct"),
        ("- 1\n", r"kubeconfig \S+ is not valid \(\w+\)\n    Correct"),
        ("kind: Config\n", r"Expected key current-context in \S+\n    Correct"),
    ],
)
def test_an_invalid_kubeconfig_is_named(tmp_path: Path, text: str | None, cause: str) -> None:
    """A missing, malformed or empty kubeconfig is reported with cause and remedy, without its content."""
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    message = refused(tmp_path, **AZURE, KUBECONFIG=str(path))
    assert re.search(cause, message), message
    assert CANARY not in message


def test_a_missing_cluster_is_reported(tmp_path: Path) -> None:
    """Outside a pod, without KUBECONFIG and without a file in the default location, the start fails with a remedy."""
    assert "KUBECONFIG: it is not set, the process does not run in a pod, and there is no ~/.kube/config" in refused(
        tmp_path, **AZURE
    )


# --- what takes long: begun first, read last -------------------------------------------------------------------------


@pytest.mark.matrix(quick=0)
def test_a_leader_without_the_api_server_ends(abandoned: RunningProgram) -> None:
    """A leader that loses the API server exits with 1 before its lease expires; the last line has the cause."""
    assert abandoned.end(within_seconds=45.0) == 1
    log = [json.loads(line) for line in abandoned.err.splitlines()]
    assert log[-1]["level"] == "ERROR"
    assert log[-1]["message"] == "stopped: leadership was lost"
    assert log[-1]["error"] == "lease kube-system/abandoned: it was not renewed in time"
    assert "Traceback" not in abandoned.err
    assert abandoned.out == ""
