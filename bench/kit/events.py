"""Made-up metadata as bytes: tables for the structural lane, columns for the leaf lane.

Bytes formatting costs half a microsecond per event, so that the generator takes little of the cores it shares
with what it measures.
"""

from __future__ import annotations

from collections.abc import Iterable

#: One event of the structural lane, about 600 bytes on the log. `rows` differs in every event of a run, so
#: every event changes its asset.
_TABLE = (
    b'{"asset_id":"table-%07d","asset_name":"orders_%07d","asset_type":"table","asset_owner":"team-%02d",'
    b'"description":"Orders as the shop confirmed them, one row for each line of an order; late corrections '
    b'arrive within a day, and the row count is that of the latest snapshot.",'
    b'"data_source":"warehouse-%02d","external_id":"warehouse.sales.orders_%07d",'
    b'"tags":["PII","finance"],"tag_origin":"source","business_terms":["Order","Revenue"],"metadata":{"schema":'
    b'"sales","format":"iceberg","partitioned_by":["order_date"],"rows":%d}}'
)

#: One column as a scraper emits it, 270 bytes and 250 bytes of headers and key.
_COLUMN = (
    b'{"asset_id":"column-%09d","asset_name":"amount_%d","asset_type":"column","data_source":"warehouse-%02d",'
    b'"external_id":"warehouse.sales.orders_%07d.amount_%d","metadata":{"data_type":"decimal(18,2)",'
    b'"ordinal":%d,"nullable":true,"comment":"gross amount in the currency of the order"}}'
)
_COLUMNS_PER_TABLE = 20


def table_batch(assets: Iterable[int], first_number: int) -> bytes:
    """The body of one request: these tables, each with a number never used before in the run."""
    numbered = enumerate(assets, first_number)
    events = [_TABLE % (a, a, a % 100, a % 10, a, number) for number, a in numbered]
    return b'{"assets":[%s]}' % b",".join(events)


def column(number: int) -> tuple[bytes, bytes]:
    """The id and the event of one column; the same number gives the same column."""
    table, ordinal = divmod(number, _COLUMNS_PER_TABLE)
    event = _COLUMN % (number, ordinal, table % 10, table, ordinal, ordinal)
    return b"column-%09d" % number, event
