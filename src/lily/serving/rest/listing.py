"""The route that lists assets: filtered, in pages, and only what the caller may read."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.calls import Reading
from lily.access.decisions import Action
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.repositories.postgres.asset_lists import AssetLists, Filters, ListedAsset
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.documents import AssetList
from lily.serving.rest.pages import PageTokens, page_size

_DELETED = {"false": False, "true": True, "any": None}

Text = Annotated[str | None, Query(max_length=1024)]
Deleted = Annotated[
    Literal["false", "true", "any"], Query(description="Whether to list deleted assets: not, only, or too.")
]
PageSize = Annotated[int, Query(description="0 means 50; at most 1,000 are answered.")]
PageToken = Annotated[str, Query(description="`next_page_token` of the page before.")]


class AssetListing:
    def __init__(self, lists: AssetLists, after: AfterEvent, tokens: PageTokens) -> None:
        self._lists = lists
        self._after = after
        self._tokens = tokens

    def router(self) -> APIRouter:
        return add_routes(
            APIRouter(tags=["assets"], dependencies=[Depends(self._after.visible)]),
            Route("/lily/v1/metadata", "GET", self.list, "listMetadata", AssetList),
        )

    async def list(
        self,
        call: Reading,
        type: Text = None,
        source: Text = None,
        tag: Text = None,
        owner: Text = None,
        deleted: Deleted = "false",
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> Response:
        """The assets the caller may read, in the order of their ids."""
        filters = Filters(_checked(type), _checked(source), _checked(tag), _checked(owner), _DELETED[deleted])
        size, question = _size(page_size), ("list", call.tenant_id, *map(str, _values(filters)))
        after = self._tokens.read(page_token, question)[0] if page_token else ""
        await call.access.refresh(call.tenant_id)
        predicate = call.access.predicate(call.principal, Action.READ, call.circumstances)
        found = await self._lists.page(call.tenant_id, filters, predicate.parameters(), after, size + 1)
        page, more = found[:size], len(found) > size
        call.notebook.note_shown([asset.asset_id for asset in page if asset.is_tagged], "listed")
        token = self._tokens.issue([page[-1].asset_id], question) if more else ""
        return Response(_document(page, token), media_type="application/json")


def _document(page: list[ListedAsset], token: str) -> str:
    """The documents are JSON already."""
    assets = ",".join(asset.document for asset in page)
    return f'{{"assets":[{assets}],"next_page_token":{to_json(token).decode()}}}'


def _values(filters: Filters) -> tuple[object, ...]:
    return (filters.asset_type, filters.data_source, filters.tag, filters.asset_owner, filters.deleted)


def _size(requested: int) -> int:
    return page_size(requested)


def _checked(text: str | None) -> str | None:
    return None if text is None else check_id(text)
