"""What all operations share: requests, errors and pages."""

import json
import re
import types
import uuid
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Self, get_args, get_origin, get_type_hints
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from .retry import ATTEMPT_TIMEOUT, MAX_WAIT, RetryingTransport, retry_after

RESTARTS = 3


class APIError(Exception):
    """The API refused a request, also after repeats. `code` is stable, `message` is not.

    `details` has a text for each invalid field of a 422, and what is missing of a 403. `retry_after` is in seconds.
    """

    def __init__(self, response: httpx.Response) -> None:
        token = response.request.headers["Authorization"].removeprefix("Bearer ")
        text = response.text.replace(token, "[token]")  # a proxy may return the request
        try:
            body = json.loads(text)
        except ValueError:  # not from the API, but from a proxy before it
            body = None
        if not isinstance(body, dict):
            body = {"error": text}
        self.status: int = response.status_code
        self.code: str = body.get("code", "")
        self.message: str = body.get("error", "")
        self.details: dict[str, str] = body.get("details", {})
        self.request_id: str | None = response.headers.get("X-Request-Id")
        self.retry_after: int | None = retry_after(response)
        super().__init__(f"{self.status} {self.code}: {self.message} {self.details or ''} (request {self.request_id})")


class Core:
    """Sends requests with a token to the API at a URL. Lost connections raise httpx.TransportError after repeats.

    An attempt fails if nothing comes for `timeout` seconds, and a request if limits deny it for more than `max_wait` seconds. A proxy is
    taken from the environment (HTTPS_PROXY, NO_PROXY). A transport of your own is for another proxy and for certificates:
    `RetryingTransport(proxy=..., verify=...)`.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = ATTEMPT_TIMEOUT,
        max_wait: float = MAX_WAIT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        url = httpx.URL(base_url)
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
            raise ValueError("the URL of the API must be like https://api.example.com, without a user, a query and a fragment")
        if not re.fullmatch("[!-~]+", token):
            raise ValueError("the token is empty, or has a character that no token has, such as a space or a line end")
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            transport=transport or RetryingTransport(max_wait=max_wait, proxy=environment_proxy(url)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _call(self, kind: Any, method: str, path: str, **request: Any) -> Any:
        return decode(kind, self._send(method, path, **request).json())

    def _send(self, method: str, path: str, *, id: str = "", query: Any = None, body: Any = None, key: str | None = None) -> httpx.Response:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())} if body is not None else {}
        params = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in (query or {}).items() if v is not None}
        content = {k: v for k, v in body.items() if v is not None} if body is not None else None
        response = self._http.request(method, path.replace("{id}", quote(id, safe="")), params=params, json=content, headers=headers)
        if response.status_code != 200:
            raise APIError(response)
        return response

    def _all(self, kind: Any, path: str, *, query: dict[str, Any], id: str = "") -> Iterator[Any]:
        """Yields each item once. A cursor that the API ignores restarts the list at its first page."""
        seen: set[str] = set()
        restarts = 0
        while True:
            response = self._send("GET", path, id=id, query=query)
            page = response.json()
            restarts += response.headers.get("Cursor-Status") == "ignored"
            if restarts > RESTARTS:
                raise RuntimeError("the API accepts no cursor")
            for item in page["items"]:
                if item["id"] not in seen:
                    seen.add(item["id"])
                    yield decode(kind, item)
            if "nextCursor" in page:
                query["cursor"] = page["nextCursor"]
            else:
                query["page"] = page["page"] + 1 if page["page"] * page["pageSize"] < page["total"] else None
            if None in (query.get("cursor", ""), query.get("page", "")):
                return


def environment_proxy(url: httpx.URL) -> str | None:
    """Returns the proxy for a URL. httpx looks for it only if it makes the transport itself."""
    proxies = {} if proxy_bypass(url.host) else getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


fields = cache(get_type_hints)


def decode(kind: Any, value: Any) -> Any:
    """Returns a JSON value as a type of the API. It ignores unknown fields."""
    if value is None:
        return None
    if isinstance(kind, types.UnionType):
        return decode(get_args(kind)[0], value)
    if get_origin(kind) is list:
        return [decode(get_args(kind)[0], item) for item in value]
    if kind is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(kind):
        camel = {name: re.sub("_(.)", lambda match: match[1].upper(), name) for name in fields(kind)}
        return kind(**{name: decode(hint, value.get(camel[name])) for name, hint in fields(kind).items()})
    return value
