"""What the tests with KAITO share."""

import pytest

from tests.world.harness import SIZE
from tests.world.kaito_predicates import Owner

WORKSPACE = Owner(kind="workspace", name="phi", size=SIZE, storage="128Gi", labels={"apps": "phi"})
RAGENGINE = Owner(kind="ragengine", name="docs", size=SIZE, storage="128Gi", labels={"apps": "docs"})
OWNERS = pytest.mark.parametrize("owner", [WORKSPACE, RAGENGINE], ids=["Workspace", "RAGEngine"])
