"""What somebody wants told about an asset, as callers write it."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from lily.ingest.assets import STRICT, AssetId

_UUID = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"


@with_config(STRICT)
class NotificationRequest(TypedDict):
    """Told to all who subscribed to the asset, or by one subscription of the caller's."""

    asset_id: AssetId
    title: Annotated[str, Field(min_length=1, max_length=300)]
    text: NotRequired[Annotated[str, Field(max_length=4000)]]
    severity: NotRequired[Annotated[str, Field(pattern=r"^SEV-[1-4]$")]]
    subscription_id: NotRequired[Annotated[str, Field(pattern=_UUID)]]
