"""How Spark reaches PostgreSQL: the database's URL in the words of JDBC."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit


def jdbc_url(database_url: str) -> str:
    """The place alone; who connects is said apart, so that it is on no command line."""
    url = urlsplit(database_url)
    return f"jdbc:postgresql://{url.hostname}:{url.port or 5432}{url.path}{_tls_of(url.query)}"


def jdbc_login(database_url: str) -> tuple[str, str]:
    """User and password."""
    url = urlsplit(database_url)
    return unquote(url.username or ""), unquote(url.password or "")


def _tls_of(query: str) -> str:
    """What the URL says about TLS, which libpq and the JDBC driver spell alike."""
    said = [(name, value) for name, value in parse_qsl(query) if name.startswith("ssl")]
    return f"?{urlencode(said)}" if said else ""
