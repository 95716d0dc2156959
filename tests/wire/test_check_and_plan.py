"""`check` and `plan` of the installed program over sockets, with valid and invalid settings."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.cli.commands.check import FAILED_CHECK
from tests.ports import free_port
from tests.stories import run_by
from tests.world.harness import SIZE, node_claim

from .site import CLAIMS, Site, led, ran, run_story

pytestmark = pytest.mark.matrix(quick=0)

TOKEN = "t0ken"


def marks(out: str) -> dict[str, str]:
    """The mark of each check, by the name of the check."""
    return {line[4:].split("  ")[0]: line[2] for line in out.splitlines() if line[:2] == "  " and line[2:3] in "✓✗-"}


def findings(out: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(out)["results"]
    return found


@run_by(run_story, token=TOKEN)
async def test_check_in_a_pipe(site: Site) -> None:
    """With everything correct, `check` exits with 0, prints every section, writes nothing and shows no token."""
    led(site.world)
    site.world.store.create(CLAIMS, node_claim("gpu1"))
    ended = await ran("check", env=site.env())
    assert (ended.code, ended.err) == (0, "")
    assert set(marks(ended.out).values()) == {"✓"}
    assert {"settings", "API server", "CRD", "permissions", "lease", "credential", "cluster"} <= set(marks(ended.out))
    assert f"size {SIZE}" in marks(ended.out)
    # A plain-http ARM endpoint, and a variable without effect: neither is an error, neither is usual.
    assert ended.out.splitlines()[-1] == "no check failed; 2 unknown or unusual"
    assert ended.out.count("probably unintended") == 2
    assert TOKEN not in ended.out
    result = json.loads((await ran("check", "-o", "json", env=site.env())).out)
    assert result["ok"] is True
    assert not [call for call in site.world.audit_log.calls() if call.is_write and "review" not in call.target.kind]


@run_by(run_story, token=TOKEN)
async def test_check_reports_all_settings_at_once(site: Site, tmp_path: Path) -> None:
    """`check` reports every invalid setting with its remedy, sends no request, and exits with 3."""
    env = site.env(METRICS_PORT="8081", HEALTH_PROBE_PORT="8081", ARM_RESOURCE_GROUP="", AZURE_CLUSTER_NAME="")
    ended = await ran("check", "-o", "json", env=env)
    assert (ended.code, ended.err) == (FAILED_CHECK, "")
    bad = [one for one in findings(ended.out) if one["state"] == "failed"]
    assert {one["message"].partition(":")[0].partition("=")[0] for one in bad} == {
        "ARM_RESOURCE_GROUP",
        "AZURE_CLUSTER_NAME",
        "HEALTH_PROBE_PORT",
    }
    assert {one["section"] for one in findings(ended.out) if one["state"] == "unknown"} == {"kubernetes", "azure"}
    assert not site.world.audit_log.calls()

    ended = await ran("check", "-o", "json", env=site.env(KUBECONFIG=str(tmp_path / "nowhere")))
    assert ended.code == FAILED_CHECK
    by_section = {one["section"]: one["state"] for one in findings(ended.out)}
    assert by_section == {"configuration": "failed", "kubernetes": "unknown", "azure": "unknown"}


@run_by(run_story, token=TOKEN)
async def test_check_without_one_of_the_apis(site: Site) -> None:
    """`check` reports a closed port or an invalid kubeconfig, and still checks the other API."""
    led(site.world)
    ended = await ran("check", "--size", SIZE, env=site.env(ARM_ENDPOINT=f"http://127.0.0.1:{free_port()}"))
    assert (ended.code, ended.err) == (FAILED_CHECK, "")
    seen = marks(ended.out)
    assert (seen["API server"], seen["cluster"], seen["other checks"]) == ("✓", "✗", "-")

    kubeconfig = site.home / "kubeconfig"
    port = site.addresses.kube.rpartition(":")[2]
    kubeconfig.write_text(kubeconfig.read_text().replace(f":{port}\n", f":{free_port()}\n"))
    ended = await ran("check", "--size", SIZE, env=site.env())
    seen = marks(ended.out)
    assert (ended.code, seen["API server"], seen["cluster"]) == (FAILED_CHECK, "✗", "✓")
    kubeconfig.write_text("not: [a kubeconfig")
    ended = await ran("check", "--size", SIZE, env=site.env())
    seen = marks(ended.out)
    assert (ended.code, seen["kubeconfig"], seen["cluster"]) == (FAILED_CHECK, "✗", "✓")
    assert "Traceback" not in ended.out + ended.err


@run_by(run_story, token=TOKEN)
async def test_check_does_not_show_a_rejected_token(site: Site) -> None:
    """`check` reports a 401 of the API server with its remedy, and does not show the token."""
    kubeconfig = site.home / "kubeconfig"
    kubeconfig.write_text(kubeconfig.read_text().replace(TOKEN, "s3cret-of-another"))
    ended = await ran("check", env=site.env())
    assert (ended.code, marks(ended.out)["API server"]) == (FAILED_CHECK, "✗")
    assert "Renew the credentials in the kubeconfig" in ended.out
    assert "s3cret" not in ended.out + ended.err


def test_plan_needs_no_settings(tmp_path: Path) -> None:
    """`plan` reads a claim from stdin or a file without settings, home directory or cluster."""
    manifest = tmp_path / "claim.yaml"
    manifest.write_text(yaml.safe_dump(node_claim("gpu1")))

    async def story() -> None:
        ended = await ran("plan", "-f", str(manifest), "-o", "json", env={"PATH": "/usr/bin:/bin"})
        assert (ended.code, ended.err) == (0, "")
        (plan,) = json.loads(ended.out)
        assert plan["agentPool"]["properties"]["vmSize"] == SIZE
        ended = await ran("plan", "-f", "-", env={"PATH": "/usr/bin:/bin"})
        assert ended.code == 2
        kinds = "NodeClaim, NodePool, AgentPoolNodeClass or NodeOverlay"
        assert ended.err == (f"gpu-provisioner plan: -: no {kinds} found\n    Name manifests of kind {kinds}.\n")

    asyncio.run(story())
