"""A small warehouse in a real PostgreSQL database, to be scraped: a shop with customers, orders and views."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg

SHOP = b"""
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'The shop''s own tables.';
CREATE TABLE shop.customers (id bigint PRIMARY KEY, email text NOT NULL, name text, country text);
COMMENT ON COLUMN shop.customers.email IS 'Where invoices go.';
CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer_id bigint, amount numeric(10, 2), placed_at date);
CREATE VIEW shop.customer_orders AS
  SELECT o.id, c.email, lower(c.name) AS customer, o.amount
    FROM shop.orders o JOIN shop.customers c ON c.id = o.customer_id WHERE c.country <> 'XX';
CREATE VIEW shop.mailing AS SELECT email AS address FROM shop.customer_orders GROUP BY email;
"""


class Warehouse:
    """A database that somebody else owns."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.execute(SHOP)

    def execute(self, *statements: bytes) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    @property
    def name(self) -> str:
        return urlsplit(self.url).path.removeprefix("/")

    @property
    def config(self) -> dict[str, object]:
        """As a connector is configured to read it."""
        place = urlsplit(self.url)
        return {"host": place.hostname, "port": place.port, "database": self.name, "user": place.username}

    @property
    def password(self) -> str:
        return urlsplit(self.url).password or ""
