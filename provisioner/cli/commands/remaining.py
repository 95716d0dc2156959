"""One object that an uninstall has to remove."""

from typing import Literal

import msgspec

Kind = Literal["NodePool", "AgentPoolNodeClass", "NodeClaim", "Node", "AgentPool", "Lease"]


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object. `action`: how it is removed; `blocked`: it remains until a user acts, who may be the caller."""

    kind: Kind
    name: str
    claim: str = ""
    owner: str = ""
    action: str
    waits_for: str
    blocked: bool = False
    finalizer: bool = False
