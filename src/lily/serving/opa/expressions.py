"""Masks as Trino's SQL: an expression of the column's own type, in which every value is quoted."""

from __future__ import annotations

import re

from lily.domain.masks import HIDDEN, Family, Mask, MaskKind, family_of

NOTHING = "NULL"
#: A type with at most two numbers, as Trino spells those that a mask can be of.
_TYPE = re.compile(r"[a-z]+( [a-z]+)*(\([0-9]{1,10}(, ?[0-9]{1,10})?\))?( [a-z]+)*")


def mask_expression(mask: Mask, column: str, data_type: str, salt: str) -> str:
    """What is shown of a column instead; nothing where the mask does not fit the type."""
    spelled = " ".join(data_type.lower().split())
    mask = mask.fitted(spelled)
    if mask.kind is MaskKind.NULL or not _TYPE.fullmatch(spelled):
        return NOTHING
    match mask.kind:
        case MaskKind.CONSTANT:
            cast = "CAST" if family_of(spelled) is Family.TEXT else "TRY_CAST"
            return f"{cast}({literal(mask.value)} AS {spelled})"
        case MaskKind.DATE:
            return f"CAST(date_trunc({literal(mask.unit)}, {identifier(column)}) AS {spelled})"
        case MaskKind.HASH:
            salted = f"{literal(salt)} || CAST({identifier(column)} AS varchar)"
            return f"CAST(lower(to_hex(sha256(to_utf8({salted})))) AS {spelled})"
    return _partial(mask, f"CAST({identifier(column)} AS varchar)", spelled)


def _partial(mask: Mask, text: str, data_type: str) -> str:
    parts = [
        *([f"substr({text}, 1, {mask.first})"] if mask.first else []),
        literal(HIDDEN),
        *([f"substr({text}, -{mask.last})"] if mask.last else []),
    ]
    shown = (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN length({text}) > {mask.first + mask.last}"
        f" THEN {' || '.join(parts)} ELSE {literal(HIDDEN)} END"
    )
    return f"CAST({shown} AS {data_type})"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
