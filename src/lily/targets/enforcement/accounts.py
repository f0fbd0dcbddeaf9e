"""What is told of some work: its statements, what protects what, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from lily.domain.masks import mask_document
from lily.domain.protection import Effect, Protection
from lily.repositories.postgres.enforcement import Become, CameOf, Spoken
from lily.targets.enforcement.planner import Work
from lily.targets.enforcement.workshop import Outcome, Workshop


def spoken(workshop: Workshop, works: Sequence[Work]) -> list[Spoken]:
    """All statements as they will be said, those that are said instead if they must wait, and the undoing."""
    return [
        Spoken(work.relation.label, workshop.text(statement), is_undo, is_meanwhile)
        for work in works
        for statements, is_undo, is_meanwhile in (
            (work.statements, False, False),
            (work.at_once, False, True),
            (work.undo, True, False),
        )
        for statement in statements
    ]


def shield_document(work: Work) -> dict[str, object]:
    """What protects each column of a relation, by its name, the strictest first."""
    names = {column.number: column.name for column in work.relation.columns}
    return {
        names[number]: [_protection(each) for each in protections]
        for number, protections in work.shield.items()
    }


def _protection(protection: Protection) -> dict[str, object]:
    return {
        "rule_id": protection.rule_id,
        "effect": protection.effect.value,
        "mask": mask_document(protection.mask) if protection.effect is Effect.MASK else None,
        "except": sorted(protection.except_roles | protection.except_groups),
    }


def came_of(works: Sequence[Work], outcome: Outcome) -> CameOf:
    become = [_become(work, outcome) for work in works]
    return CameOf(become, outcome.failed, outcome.done, outcome.denied)


def _become(work: Work, outcome: Outcome) -> Become:
    label = work.relation.label
    if label in outcome.failed:
        return Become(label, "failed", shield_document(work) or {"": []}, outcome.failed[label])
    state = "waiting" if label in (*outcome.waiting, *outcome.disturbed) else "live"
    columns = shield_document(work)
    return Become(label, state, columns or ({"": []} if state == "waiting" else {}))


def troubles_of(outcome: Outcome) -> dict[str, str]:
    waiting = dict.fromkeys(outcome.waiting, "waits for an open transaction")
    return outcome.failed | waiting | dict.fromkeys(outcome.disturbed, "somebody changes it; looked at again")


def outcome_document(outcome: Outcome) -> dict[str, object]:
    return {"done": outcome.done, "waiting": outcome.waiting, "failed": outcome.failed}
