"""Repeats requests until they succeed, and reads all pages of a list."""

import random
import time
from collections.abc import Callable
from typing import Any

import httpx

from ops.types import UNSET, Response, Unset

ATTEMPTS = 6
ATTEMPT_TIMEOUT = 5.0  # seconds
FIRST_BACKOFF = 0.25
TEMPORARY = {408, 409, 429, 502, 503, 504}


class Refused(Exception):
    """The API refused a request."""


class RetryingTransport(httpx.HTTPTransport):
    """Repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an Idempotency-Key.

    It waits for Retry-After, or else twice as long after each attempt.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        repeatable = request.method == "GET" or "Idempotency-Key" in request.headers
        backoff = FIRST_BACKOFF
        for attempt in range(1, ATTEMPTS + 1):
            last = not repeatable or attempt == ATTEMPTS
            wait = backoff * random.uniform(0.5, 1.5)
            try:
                response = self._whole(request)
                if last or response.status_code not in TEMPORARY:
                    return response
                after = response.headers.get("Retry-After", "")
                wait = float(after) if after.isdecimal() else wait
            except httpx.TransportError:
                if last:
                    raise
            time.sleep(wait)
            backoff *= 2
        raise AssertionError("unreachable")

    def _whole(self, request: httpx.Request) -> httpx.Response:
        """Reads the whole response, so that a cut response is an error here, where it is repeated."""
        response = super().handle_request(request)
        try:
            response.read()
        finally:
            response.close()
        return response


def ok(response: Response[Any]) -> Any:
    """Returns the decoded body of a response."""
    if response.status_code != 200:
        raise Refused(f"{response.status_code}: {response.content.decode(errors='replace')}")
    return response.parsed


def all_pages(page: Callable[[str | Unset], Response[Any]]) -> list[Any]:
    """Returns the items of all pages. A cursor that the API ignores restarts the list at its first page."""
    items: list[Any] = []
    cursor: str | Unset = UNSET
    while True:
        response = page(cursor)
        body = ok(response)
        if cursor and response.headers.get("Cursor-Status") == "ignored":
            items = []
        items += body.items
        if body.next_cursor is None:
            return items
        cursor = body.next_cursor
