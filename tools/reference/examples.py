"""`docs/reference/examples.md`: every example, with what it shows, from the files themselves."""

from pathlib import Path

from .markdown import block, page

FOLDER = Path(__file__).parents[2] / "examples"

INTRODUCTION = """\
One claim for each story, in the folder `examples/` of the repository. In every run of the tests each is applied as it
stands, becomes the pool and Node that it asks for, and goes again.

```console
$ gpu-provisioner plan -f examples/first-gpu.yaml
$ kubectl apply -f examples/first-gpu.yaml
```"""

# From the first machine to what is rare.
ORDER = (
    "first-gpu", "cpu", "a100-multi", "h100-multi", "amd", "several-sizes", "zones", "spot", "mig", "azure-linux",
    "startup-taint", "long-jobs", "keep-broken", "kaito-workspace", "kaito-ragengine", "from-gpu-provisioner",
)  # fmt: skip


def render() -> str:
    """The page; raises ValueError if a file has no place in the order, or a place no file."""
    found = {path.stem: path for path in FOLDER.glob("*.yaml")}
    if odd := set(found) ^ set(ORDER):
        raise ValueError(f"examples without a place on the page, or places without an example: {sorted(odd)}")
    sections = []
    for stem in ORDER:
        head, _, body = found[stem].read_text(encoding="utf-8").partition("\n")
        sections.append(f"## {stem}\n\n{head.removeprefix('# ')}\n\n{block(body, 'yaml')}")
    return page("Examples", "examples", INTRODUCTION, *sections)
