"""`docs/references/karpenter-suites.md`: Karpenter's test suites, and where this project does not behave the same."""

from tests.oracle.suites.rows import COMMIT, Suite, suites

from .markdown import page, table

INTRODUCTION = f"""\
Every test of the listed suites of Karpenter, read from commit
[{COMMIT}](https://github.com/kubernetes-sigs/karpenter/tree/{COMMIT}/pkg/controllers), is a row of a table in
`tests/oracle/suites`. *Same* names a test of this project that asserts the behavior; *different* and *not applicable*
state the reason. `tests/oracle/suites/test_suites.py` checks that every named test exists, and that no row is
unexplained."""

DIFFERENT = "The number is that of the test in Karpenter's file. Rows with one reason are listed together."


def render() -> str:
    """The page."""
    found = suites()
    parts = [INTRODUCTION, "## Counts", _counts(found)]
    for name, suite in found.items():
        if rows := _differences(suite):
            parts += [f"## {name}", table(["Tests", "Behavior", "Here", "Reason"], rows)]
    parts.insert(3, DIFFERENT)
    return page("Karpenter's test suites", "tests/oracle/suites", *parts)


def _counts(found: dict[str, Suite]) -> str:
    rows = [(name, *_numbers(suite)) for name, suite in found.items()]
    every = Suite(row=tuple(one for suite in found.values() for one in suite.row))
    rows.append(("all", *_numbers(every)))
    return table(["Suite", "Tests", "Same", "Different", "Not applicable", "Unexplained"], rows)


def _numbers(suite: Suite) -> list[str]:
    verdicts = (suite.count("same"), suite.count("different"), suite.count("not-applicable"))
    return [str(number) for number in (len(suite.row), *verdicts, len(suite.unexplained))]


def _differences(suite: Suite) -> list[list[str]]:
    grouped: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for one in suite.row:
        if one.verdict != "same":
            grouped.setdefault((one.verdict, one.reason), []).append((one.number, one.what))
    return [
        [
            ", ".join(_ranges([number for number, _ in rows])),
            "; ".join(dict.fromkeys(what for _, what in rows)),
            verdict.replace("-", " "),
            reason,
        ]
        for (verdict, reason), rows in grouped.items()
    ]


def _ranges(numbers: list[int]) -> list[str]:
    """Ascending numbers, those that follow each other as one text."""
    found = list[list[int]]()
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return [str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in found]
