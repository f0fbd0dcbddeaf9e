-- The demo's warehouse: a small shop in a database of its own. Run by lily.apps.demo; every statement may be run again.

-- name: tables
CREATE TABLE IF NOT EXISTS customers (
    id bigint PRIMARY KEY, name text NOT NULL, email text NOT NULL, country text NOT NULL, born date);
CREATE TABLE IF NOT EXISTS orders (
    id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers, amount numeric(10, 2), placed_at date);
COMMENT ON TABLE customers IS 'Everybody who ever bought something.';
COMMENT ON TABLE orders IS 'One row per order, as the shop takes it.';
CREATE OR REPLACE VIEW customer_orders AS
    SELECT o.id AS order_id, c.name, c.email, o.amount, o.placed_at
      FROM orders o JOIN customers c ON c.id = o.customer_id;
CREATE OR REPLACE VIEW top_customers AS
    SELECT email AS contact, sum(amount) AS revenue FROM customer_orders GROUP BY email;

-- name: rows
INSERT INTO customers VALUES
    (1, 'Ada Lovelace', 'ada@example.com', 'GB', '1815-12-10'),
    (2, 'Grace Hopper', 'grace@example.com', 'US', '1906-12-09'),
    (3, 'Emmy Noether', 'emmy@example.com', 'DE', '1882-03-23')
ON CONFLICT DO NOTHING;
INSERT INTO orders VALUES
    (1, 1, 120.00, '2026-01-05'), (2, 2, 80.50, '2026-01-06'), (3, 1, 15.25, '2026-02-01'), (4, 3, 42.00, '2026-02-03')
ON CONFLICT DO NOTHING
