"""The routes a browser is sent through when somebody logs in to the console with an identity provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from lily.access.console_logins import CALLBACK, LOGIN_SECONDS, Answer, ConsoleLogins
from lily.access.cookies import Cookies
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.requests import MalformedRequest
from lily.access.routers import Route, add_routes
from lily.access.scopes import SCOPES
from lily.access.sessions import Sessions
from lily.domain.errors import Unauthenticated
from lily.serving.rest.auth_answers import LoginProviders, ProtectedResource
from lily.settings import AuthSettings

Text = Annotated[str, Query()]


@dataclass(frozen=True)
class ConsoleLoginRoutes:
    logins: ConsoleLogins
    sessions: Sessions
    cookies: Cookies
    settings: AuthSettings

    def router(self) -> APIRouter:
        auth, resource = "/lily/v1/auth", "/.well-known/oauth-protected-resource"
        start, sent = auth + "/authorize", RedirectResponse
        return add_routes(
            APIRouter(tags=["auth"]),
            Route(auth + "/providers", "GET", self.providers, "listLoginProviders", LoginProviders),
            Route(resource, "GET", self.resource, "getProtectedResource", ProtectedResource),
            Route(start, "GET", self.authorize, "startLogin", status=302, response_class=sent),
            Route(CALLBACK, "GET", self.callback, "finishLogin", status=303, response_class=sent),
        )

    async def providers(self) -> Response:
        """How one can log in to the console: with a password, and with these identity providers."""
        return JSONResponse({"local": True, "providers": self.logins.providers()})

    async def authorize(self, provider: Text, return_to: Text = "/") -> Response:
        """Send the browser to the identity provider."""
        url, kept = await self.logins.start(provider, return_to)
        response = RedirectResponse(url, 302)
        self.cookies.set(response, self.cookies.login_name, kept, LOGIN_SECONDS)
        return response

    async def callback(
        self, request: Request, code: Text = "", state: Text = "", iss: Text = "", error: Text = ""
    ) -> Response:
        """Back from the identity provider: open a session in a cookie, and go where the user wanted to go."""
        if error:
            raise Unauthenticated("the identity provider did not log you in; try again")
        if not code:
            raise MalformedRequest("there is no code; an identity provider sends browsers here with one")
        kept = request.cookies.get(self.cookies.login_name, "")
        session, return_to = await self.logins.finish(kept, Answer(code, state, iss))
        known = Principal(session.tenant_id, session.subject, frozenset(session.roles))
        notebook = Notebook(request.app.state.trail, known, origin_of(request))
        notebook.write("login", ("user", session.subject), True, "identity provider")
        _, value = await self.sessions.open_for_browser(session)
        response = RedirectResponse(return_to, 303)
        self.cookies.set(response, self.cookies.session_name, value)
        self.cookies.clear(response, self.cookies.login_name)
        return response

    async def resource(self) -> Response:
        """Which authorization servers issue tokens for this resource (RFC 9728)."""
        content = {
            "resource": self.settings.public_url,
            "authorization_servers": [issuer.issuer for issuer in self.settings.issuers],
            "scopes_supported": list(SCOPES),
            "bearer_methods_supported": ["header"],
        }
        return JSONResponse(content)
