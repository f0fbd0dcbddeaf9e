"""The routes of Trino's OPA plugin, under /v1/data/trino; each takes a question and answers from memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.calls import Call, call_for
from lily.access.decisions import Action as Asked
from lily.access.requests import JSON_TYPES, read_body
from lily.access.routers import Route, add_routes
from lily.domain.errors import InvalidInput
from lily.serving.opa.answers import Answers
from lily.serving.opa.askers import Askers
from lily.serving.opa.documents import (
    OpaAllowed,
    OpaColumnMask,
    OpaColumnMasks,
    OpaRowFilters,
    OpaShown,
)
from lily.serving.opa.live_books import ProtectionBooks
from lily.serving.opa.questions import Action, Question, view_expression
from lily.serving.rest.bodies import body_of, parse_model

PREFIX = "/v1/data/trino"
#: Found in the text of a question, not in each of its names: an engine waits for the answer.
_NUL = b"\\u0000"
#: So many questions are known by who asks them.
_MOST_QUESTIONS = 5000

#: Answers a question, by what is known.
Judge = Callable[[Question, Answers], dict[str, Any]]
Asking = Annotated[Call, Depends(call_for(Asked.READ, "protection"))]
Unknown = Annotated[
    Literal["deny", "allow"], Query(description="What to say about tables and columns Lily does not know.")
]


@dataclass(frozen=True)
class OpaRoutes:
    """An answer that cannot be known to be right is an error, at which Trino refuses the query."""

    books: ProtectionBooks
    askers: Askers
    #: The user and the groups in a question, by the hash of its text.
    _whose: dict[bytes, tuple[str, frozenset[str]]] = field(default_factory=dict)

    def router(self) -> APIRouter:
        asked, masks = body_of(Question), "/batchColumnMasks"
        return add_routes(
            APIRouter(prefix=PREFIX, tags=["protection"]),
            Route("/allow", "POST", self.allow, "opaAllow", OpaAllowed, asked),
            Route("/batch", "POST", self.batch, "opaBatch", OpaShown, asked),
            Route("/rowFilters", "POST", self.row_filters, "opaRowFilters", OpaRowFilters, asked),
            Route("/columnMask", "POST", self.column_mask, "opaColumnMask", OpaColumnMask, asked),
            Route(masks, "POST", self.batch_column_masks, "opaBatchColumnMasks", OpaColumnMasks, asked),
        )

    async def allow(self, request: Request, call: Asking, unknown: Unknown = "deny") -> Response:
        """Whether an operation may be done (`opa.policy.uri`)."""
        question, answers = await self._read(request, call, unknown)
        allowed = answers.allow(question.action)
        if not allowed:
            _note(call, question)
        return _response(to_json({"result": allowed}))

    async def batch(self, request: Request, call: Asking, unknown: Unknown = "deny") -> Response:
        """Which of many things are shown (`opa.policy.batched-uri`)."""
        return await self._answered(request, call, unknown, _shown)

    async def row_filters(self, request: Request, call: Asking, unknown: Unknown = "deny") -> Response:
        """The rows that are shown (`opa.policy.row-filters-uri`)."""
        return await self._answered(request, call, unknown, _row_filters)

    async def column_mask(self, request: Request, call: Asking, unknown: Unknown = "deny") -> Response:
        """What is shown instead of a column (`opa.policy.column-masking-uri`); `{}` for the column itself."""
        return await self._answered(request, call, unknown, _mask)

    async def batch_column_masks(self, request: Request, call: Asking, unknown: Unknown = "deny") -> Response:
        """The same for many columns (`opa.policy.batch-column-masking-uri`)."""
        return await self._answered(request, call, unknown, _masks)

    async def _read(self, request: Request, call: Call, unknown: str) -> tuple[Question, Answers]:
        request.state.only_asks = True
        question = _question(await read_body(request, JSON_TYPES))
        book = await self.books.current(call.tenant_id)
        asker = await self.askers.of(call.tenant_id, question.user, question.groups)
        return question, Answers(book, asker, unknown == "allow")

    async def _answered(self, request: Request, call: Call, unknown: str, judge: Judge) -> Response:
        """A question in the same words by the same asker is answered in the same words, without reading it,
        for as long as the book stays as it is: engines ask the same with every query."""
        request.state.only_asks = True
        body = await read_body(request, JSON_TYPES)
        digest, question = sha256(body).digest(), None
        if digest not in self._whose:
            question = _question(body)
            if len(self._whose) >= _MOST_QUESTIONS:
                self._whose.clear()
            self._whose[digest] = (question.user, question.groups)
        user, groups = self._whose[digest]
        book = await self.books.current(call.tenant_id)
        asker = await self.askers.of(call.tenant_id, user, groups)
        key = (judge, digest, asker, unknown)
        answer = book.answer(key)
        if answer is None:
            answer = to_json(judge(question or _question(body), Answers(book, asker, unknown == "allow")))
            book.remember(key, answer)
        return _response(answer)


def _question(body: bytes) -> Question:
    if _NUL in body:  # PostgreSQL, which is asked who it is, knows no such character
        raise InvalidInput("the character U+0000 is not allowed")
    return parse_model(Question, body)


def _shown(question: Question, answers: Answers) -> dict[str, Any]:
    return {"result": answers.shown(question.action)}


def _row_filters(question: Question, answers: Answers) -> dict[str, Any]:
    table = question.action.resource.table
    if table is None:
        raise _without("table")
    return {"result": answers.row_filters(table)}


def _mask(question: Question, answers: Answers) -> dict[str, Any]:
    column = question.action.resource.column
    if column is None:
        raise _without("column")
    expression = answers.mask(column)
    return {} if expression is None else {"result": view_expression(expression)}


def _masks(question: Question, answers: Answers) -> dict[str, Any]:
    return {"result": answers.masks(question.resources)}


def _note(call: Call, question: Question) -> None:
    """The audit knows what an engine was told to refuse, and to whom."""
    what = (question.action.operation, _name(question.action))
    call.notebook.write("read", what, False, f"asked for {question.user} by an engine")


def _name(action: Action) -> str:
    table = action.resource.table
    if table is None:
        return ""
    return f"{table.name.key}({', '.join(table.columns[:20])})"[:512]


def _without(name: str) -> InvalidInput:
    pointer = f"/input/action/resource/{name}"
    return InvalidInput(f"{pointer}: is required", errors=[{"pointer": pointer, "detail": "is required"}])


def _response(content: bytes) -> Response:
    return Response(content, media_type="application/json")
