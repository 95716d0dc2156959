"""Completion of names that are read from the cluster, by the installed program over sockets."""

import pytest

from tests.stories import run_by
from tests.world.demand import node_pool, pod
from tests.world.harness import node_claim

from .site import CLAIMS, Site, ran, run_story

pytestmark = pytest.mark.matrix(quick=0)

POOLS = "nodepools.karpenter.sh"


async def offered(site: Site, line: str, **more: str) -> list[str]:
    """The completions of the end of this line, sorted, by the protocol of the shells' script."""
    file = site.home / "completions"
    file.write_text("")
    request = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(file),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    ended = await ran(env=site.env(**request, **more))
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    return sorted(word.strip() for word in file.read_text().splitlines())


@run_by(run_story)
async def test_names_of_the_cluster_are_completed(site: Site) -> None:
    """NodeClaims for the commands about one; for `explain` the kinds too, and a kind completes its own names."""
    store = site.world.store
    store.create(CLAIMS, node_claim("gpu1"))
    store.create(CLAIMS, node_claim("other"))
    store.create(POOLS, node_pool("fleet"))
    store.create("pods", pod("train"), "default")
    for command in ("doctor", "adopt", "release"):
        assert await offered(site, f"gpu-provisioner {command} ") == ["gpu1", "other"]
    assert await offered(site, "gpu-provisioner release g") == ["gpu1"]
    assert await offered(site, "gpu-provisioner explain ") == [
        "fleet",
        "gpu1",
        "nodeclaim/",
        "nodepool/",
        "other",
        "pod/",
    ]
    assert await offered(site, "gpu-provisioner explain np/") == ["np/fleet"]
    assert await offered(site, "gpu-provisioner explain pod/d") == ["pod/default/train"]
    assert not [call for call in site.world.audit_log.calls() if call.is_write]


@run_by(run_story)
async def test_a_cluster_that_refuses_offers_nothing(site: Site) -> None:
    """Without a word on the terminal, in which the user is typing."""
    site.world.store.create(CLAIMS, node_claim("gpu1"))
    assert await offered(site, "gpu-provisioner release ", KUBE_CONTEXT="nope") == []
