"""How the answers to Trino's OPA plugin look, for OpenAPI."""

from __future__ import annotations

from pydantic import BaseModel


class OpaAllowed(BaseModel):
    result: bool


class OpaShown(BaseModel):
    """The places of what is shown in the list that was asked about."""

    result: list[int]


class ViewExpression(BaseModel):
    """SQL, in the dialect of Trino."""

    expression: str


class OpaRowFilters(BaseModel):
    result: list[ViewExpression]


class OpaColumnMask(BaseModel):
    """Without a result the column itself is shown."""

    result: ViewExpression | None = None


class IndexedMask(BaseModel):
    index: int
    viewExpression: ViewExpression


class OpaColumnMasks(BaseModel):
    result: list[IndexedMask]
