"""Subscriptions as callers write and read them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, Field, field_validator

from lily.domain.errors import InvalidInput
from lily.domain.subscriptions import CHANGE_NAMES, Selection, Subscription, Target, Template
from lily.domain.templates import PLACEHOLDERS, check_template
from lily.repositories.postgres.subscriptions import StoredSubscription, selection_document
from lily.serving.rest.bodies import Body

_MOST = 100
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
AssetId = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]
Endpoint = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^[^\x00-\x1f\x7f]+$")]
Names = Annotated[list[Name], Field(max_length=_MOST)]
AssetIds = Annotated[list[AssetId], Field(max_length=_MOST)]


class SelectionBody(Body):
    """Which changes: all that is named must hold; of each, one suffices. What is left out selects all."""

    changes: Names = Field(
        [], description=f"{', '.join(sorted(CHANGE_NAMES))}; the part before the dot means all of its kind."
    )
    assets: AssetIds = Field([], description="Ids of assets.")
    severities: Names = Field([], description="Of incidents: SEV-1 to SEV-4.")
    tags: Names = Field([], description="Effective on the asset, or coming or going.")
    types: Names = Field([], description="Types of assets.")
    owners: Names = Field([], description="Owners of assets.")
    downstream_of: AssetIds = Field([], description="One of these, or what their lineage reaches.")
    upstream_of: AssetIds = Field([], description="One of these, or what they depend on.")

    @field_validator("changes")
    @classmethod
    def _known(cls, changes: list[str]) -> list[str]:
        if unknown := sorted(set(changes) - CHANGE_NAMES):
            raise ValueError(f"unknown change {unknown[0]!r}; there are: {', '.join(sorted(CHANGE_NAMES))}")
        return changes

    def selection(self) -> Selection:
        return Selection(**{name: frozenset(values) for name, values in self.model_dump().items()})


class TargetBody(Body):
    connector: Name = Field(description="The id or the name of a connector that can be told something.")
    options: dict[str, str] = Field({}, max_length=20, description="Such as `channel` for Slack.")


class TemplateBody(Body):
    """Lily's own words where it is left out. Placeholders are filled in, never evaluated."""

    title: str | None = Field(None, min_length=1, max_length=300)
    text: str | None = Field(None, max_length=4000)

    @field_validator("title", "text")
    @classmethod
    def _checked(cls, text: str | None) -> str | None:
        try:
            return None if text is None else check_template(text)
        except InvalidInput as error:
            raise ValueError(error.message) from None


class SubscriptionBody(Body):
    """What is to be told, where, in which words; or, for one asset, just `asset_id` and `endpoint`."""

    name: Name | None = None
    selection: SelectionBody = Field(default_factory=lambda: SelectionBody.model_validate({}))
    target: TargetBody | None = Field(None, description="Without one it makes notifications only.")
    template: TemplateBody = Field(
        default_factory=lambda: TemplateBody.model_validate({}),
        description=f"Placeholders: {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}.",
    )
    is_disabled: bool = False
    asset_id: AssetId | None = Field(None, description="Short for a selection of this asset.")
    endpoint: Endpoint | None = Field(
        None,
        description="Short for a target: a connector's id or name, or the https URL of a Slack webhook or of "
        "a receiver of one's own, for which a connector is made unless there is one.",
    )

    @property
    def connector(self) -> str | None:
        """The connector that is named, whichever way."""
        if self.target is not None and self.endpoint is not None:
            raise _invalid("/endpoint", "leave it out where there is a target")
        return self.target.connector if self.target else self.endpoint

    @property
    def url(self) -> str | None:
        """The endpoint, when it is an address."""
        return self.endpoint if self.endpoint and "://" in self.endpoint else None

    def subscription(self, owner: tuple[str, str], connector_id: str | None, known: str = "") -> Subscription:
        """Of this tenant and person; `known` is the id of one that is replaced."""
        target = None
        if connector_id is not None:
            target = Target(connector_id, self.target.options if self.target else {})
        return Subscription(
            *(owner[0], known or str(uuid4())),
            self.name or _name(self._selection()),
            owner[1],
            self._selection(),
            target,
            Template(self.template.title, self.template.text),
            self.is_disabled,
        )

    def _selection(self) -> Selection:
        chosen = self.selection.selection()
        if self.asset_id is None:
            return chosen
        if chosen.assets:
            raise _invalid("/asset_id", "leave it out where selection.assets is given")
        return Selection(
            **{name: getattr(chosen, name) for name in SelectionBody.model_fields if name != "assets"},
            assets=frozenset({self.asset_id}),
        )


class SubscriptionDocument(BaseModel):
    """A subscription as it is shown. `asset_id` and `endpoint` are those of one about a single asset."""

    subscription_id: str
    name: str
    owner: str
    selection: dict[str, list[str]]
    target: dict[str, Any] | None
    template: dict[str, str | None]
    is_disabled: bool
    asset_id: str | None
    endpoint: str | None
    endpoint_secret: str | None = Field(
        None, description="With which deliveries to a new URL are signed (Standard Webhooks); shown once."
    )
    created_at: str
    updated_at: str


class SubscriptionList(BaseModel):
    subscriptions: list[SubscriptionDocument]
    next_page_token: str


def subscription_document(stored: StoredSubscription) -> dict[str, Any]:
    subscription = stored.subscription
    target, assets = subscription.target, sorted(subscription.selection.assets)
    return {
        "subscription_id": subscription.subscription_id,
        "name": subscription.name,
        "owner": subscription.owner,
        "selection": selection_document(subscription.selection),
        "target": target and {"connector_id": target.connector_id, "options": target.options},
        "template": {"title": subscription.template.title, "text": subscription.template.text},
        "is_disabled": subscription.is_disabled,
        "asset_id": assets[0] if len(assets) == 1 else None,
        "endpoint": target.connector_id if target else None,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def _name(selection: Selection) -> str:
    """What it is called if nobody says."""
    chosen = [value for values in selection_document(selection).values() for value in values]
    return ", ".join(chosen)[:100] or "everything"


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
