"""The checker: holds what a run left behind against every rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tests.fault.evidence import Evidence, collect
from tests.fault.explain import explain
from tests.fault.history import Answer, History
from tests.fault.rules.executions import done_more_than_once
from tests.fault.rules.registry import RULES
from tests.fault.rules.submissions import LOST

for _name in ("submissions", "attempts", "executions", "limits", "files"):
    import_module(f"tests.fault.rules.{_name}")


@dataclass(slots=True)
class Report:
    """What the checker found."""

    acknowledged: int = 0
    unknown: int = 0
    jobs: int = 0
    executions: int = 0
    duplicated: int = 0
    """Jobs whose work was done more than once; allowed for what ran when a fault struck."""
    violations: dict[str, list[str]] = field(default_factory=dict)
    """By rule."""

    @property
    def lost(self) -> int:
        return len(self.violations.get(LOST, []))

    @property
    def broken(self) -> int:
        """How many violations there are, of all rules."""
        return sum(len(found) for found in self.violations.values())

    def violate(self, rule: str, text: str) -> None:
        self.violations.setdefault(rule, []).append(text)

    def __str__(self) -> str:
        lines = [
            f"{self.acknowledged} acknowledged, {self.unknown} unknown, {self.jobs} stored, "
            f"{self.executions} executions, {self.duplicated} done twice"
        ]
        for rule, found in self.violations.items():
            lines += [f"{rule}:", *(f"  {text}" for text in found[:10])]
        return "\n".join(lines)


def check(place: Path, history: History) -> Report:
    """Check the run in a directory; its daemon has stopped."""
    return judge(collect(place, history))


def judge(evidence: Evidence) -> Report:
    """Every rule over the evidence."""
    history = evidence.history
    report = Report(
        acknowledged=len(history.acknowledged()),
        unknown=sum(one.answer is Answer.UNKNOWN for one in history.submissions),
        jobs=len(evidence.jobs),
        executions=len(evidence.executions),
        duplicated=len(done_more_than_once(evidence)),
    )
    assert history.excused.keys() <= RULES.keys(), "there is no such rule to excuse"
    for sentence, rule in RULES.items():
        if sentence not in history.excused:
            for text in rule(evidence):
                report.violate(sentence, explain(evidence, text))
    return report
