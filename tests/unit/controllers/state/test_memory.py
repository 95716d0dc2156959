"""What is remembered of a failure is bounded, however large the claim is."""

import msgspec

from cloudprovider.errors import Rejected
from controllers.state.memory import remember_failure
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclaim import NodeClaim

HUGE = {"example.com/notes": "x" * 256 * 1024}


def test_a_rejection_does_not_keep_the_text_of_its_claim() -> None:
    """An edit of an annotation still allows the next attempt, and nothing else does."""
    claim = NodeClaim(metadata=ObjectMeta(name="gpu1", uid="u", annotations=HUGE))
    failure = remember_failure(None, Rejected("LabelRefused", "no", final=True), now=0.0, claim=claim)
    assert len(msgspec.json.encode(failure)) < 1024
    assert failure.concerns(claim)
    edited = msgspec.structs.replace(claim.metadata, annotations={**HUGE, "gpu-provisioner.sh/retry": "1"})
    assert not failure.concerns(msgspec.structs.replace(claim, metadata=edited))
