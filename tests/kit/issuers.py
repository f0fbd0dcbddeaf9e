"""An identity provider whose keys the test holds: discovery and JWKS over HTTP, tokens as one wants them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

_MAKERS: dict[str, Any] = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "PS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm),
}


class FakeIssuer:
    """Believed by whoever configures it. `asked` counts how often its keys were fetched."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.down = False
        self.announced = url
        self.keys: dict[str, tuple[str, Any]] = {}
        self.add_key("RS256")

    def add_key(self, algorithm: str) -> str:
        """The id of a new key, which signs from now on."""
        self.signing = uuid4().hex
        self.keys[self.signing] = (algorithm, _MAKERS[algorithm][0]())
        return self.signing

    def public_keys(self) -> list[dict[str, Any]]:
        return [
            _MAKERS[algorithm][1].to_jwk(key.public_key(), as_dict=True)
            | {"kid": key_id, "use": "sig", "alg": algorithm}
            for key_id, (algorithm, key) in self.keys.items()
        ]

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        good = {
            "iss": self.url,
            "aud": "lily",
            "sub": "1234",
            "preferred_username": "ada",
            "groups": ["data-stewards"],
            "iat": now,
            "exp": now + 300,
            "jti": uuid4().hex,
        }
        return {name: value for name, value in (good | changes).items() if value is not None}

    def token(self, *, key_id: str = "", headers: dict[str, Any] | None = None, **changes: Any) -> str:
        key_id = key_id or self.signing
        algorithm, key = self.keys[key_id]
        return jwt.encode(self.claims(**changes), key, algorithm, headers={"kid": key_id} | (headers or {}))

    def documents(self) -> dict[str, Any]:
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.announced,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
            },
            "/keys": {"keys": self.public_keys()},
        }


@contextmanager
def running_issuer() -> Iterator[FakeIssuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += self.path == "/keys"
            document = None if issuer.down else issuer.documents().get(self.path)
            self.send_response(503 if issuer.down else 200 if document else 404)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = FakeIssuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
