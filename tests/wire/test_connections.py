"""The connections that the program makes and the ports that it opens, as its interpreter reports them.

The NetworkPolicy of the chart permits the API server, Azure Resource Manager and two ports; DNS and tokens too, which
the simulation does not need.
"""

import re
import sys
from urllib.parse import urlsplit

from tests.stories import run_by
from tests.world.demand import node_class, node_pool, pod

from .site import CLAIMS, Site, run, run_story

# Writes each address to standard error, beside the log.
AUDITED = """
import sys
from json import dumps

def report(event, arguments):
    if event in {"socket.connect", "socket.bind"} and isinstance(arguments[1], tuple):
        sys.stderr.write(dumps({"message": "audit", "event": event, "address": arguments[1][:2]}) + "\\n")

sys.addaudithook(report)
from provisioner.cli.main import main
sys.exit(main())
"""


@run_by(run_story)
async def test_the_program_connects_to_the_api_server_and_azure_only(site: Site) -> None:
    """A leader with a NodePool, a pod and its machine; the ports are those of the settings."""
    store = site.world.store
    store.create("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
    store.create("nodepools.karpenter.sh", node_pool())
    env = site.env(DEPLOYMENT_MODE="managed")
    async with run(site, "-c", AUDITED, "run", env=env, program=sys.executable) as it:
        store.create("pods", pod("p"), "default")
        await site.until(lambda: ready(site), "the machine is Ready")
        await it.end(15)
        found = {(one["event"], tuple(one["address"])) for one in it.log if one["message"] == "audit"}
    kube = re.search(r"server: (\S+)", (site.home / "kubeconfig").read_text())
    assert kube is not None
    servers = {urlsplit(url) for url in (kube[1], site.addresses.arm)}
    assert {(one.hostname, one.port) for one in servers} == {to for event, to in found if event == "socket.connect"}
    # urllib3 binds to the loopback address of IPv6, to find out whether there is one.
    bound = {port for event, (host, port) in found if event == "socket.bind" and host != "::1"}
    assert bound == {site.metrics, site.health}


def ready(site: Site) -> bool:
    """A NodeClaim of the NodePool is Ready."""
    conditions = (c for one in site.world.store.list(CLAIMS) for c in (one.get("status") or {}).get("conditions") or ())
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
