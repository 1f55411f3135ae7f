"""Sends requests as fast as the limits of the token allow, and repeats them until they succeed."""

import math
import random
import re
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

ATTEMPTS = 8
ATTEMPT_TIMEOUT = 30.0  # seconds
FIRST_BACKOFF = 0.25
LONGEST_WAIT = 60.0  # a request that a limit denies for longer fails
TEMPORARY = {408, 409, 429, 502, 503, 504}


class RetryingTransport(httpx.HTTPTransport):
    """Repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an Idempotency-Key.

    It waits for Retry-After, or else twice as long after each attempt, and before each attempt until the limits allow a request. A
    transport is for one token.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pacer = Pacer()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        repeatable = request.method == "GET" or "Idempotency-Key" in request.headers
        backoff = FIRST_BACKOFF
        for attempt in range(1, ATTEMPTS + 1):
            last = not repeatable or attempt == ATTEMPTS
            wait = backoff * random.uniform(0.5, 1.5)
            try:
                response = self._whole(request)
                after = retry_after(response)
                wait = wait if after is None else after
                if last or response.status_code not in TEMPORARY or wait > LONGEST_WAIT:
                    return response
            except httpx.TransportError:
                if last:
                    raise
            time.sleep(wait)
            backoff *= 2
        raise AssertionError("unreachable")

    def _whole(self, request: httpx.Request) -> httpx.Response:
        """Reads the whole response, so that a cut response is an error here, where it is repeated."""
        response = None
        self._pacer.wait()
        try:
            response = super().handle_request(request)
            try:
                response.read()
            finally:
                response.close()
            return response
        finally:
            self._pacer.done(response)


def retry_after(response: httpx.Response) -> int | None:
    """Returns the seconds of Retry-After, which may be a date."""
    text = response.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]{1,9}", text):
        return int(text)
    try:
        return max(0, math.ceil(parsedate_to_datetime(text).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return None


class Pacer:
    """Delays requests so that none exceeds a limit, by the RateLimit header of each response. Threads share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._in_flight = 0
        self._free = 0  # requests that may be sent beside those in flight; the first request is sent alone
        self._remaining: float = 0  # least of the responses since no request was in flight
        self._not_before = 0.0

    def wait(self) -> None:
        """Returns when a request may be sent."""
        with self._changed:
            while (wait := self._delay()) > 0:
                self._changed.wait(min(wait, LONGEST_WAIT))
            if self._in_flight == 0:
                self._remaining = float("inf")
            self._in_flight += 1
            self._free -= 1

    def _delay(self) -> float:
        wait = self._not_before - time.monotonic()
        if 0 < wait <= LONGEST_WAIT:
            return wait
        return 0.0 if self._free > 0 or self._in_flight == 0 else LONGEST_WAIT

    def done(self, response: httpx.Response | None) -> None:
        """Must be called after each request."""
        headers = response.headers if response is not None else {}
        found = re.findall(r"r=(\d{1,9});t=(\d{1,9})", headers.get("RateLimit", ""))
        limits = [(int(remaining), int(seconds)) for remaining, seconds in found]
        if response is not None and response.status_code == 429:
            limits.append((0, retry_after(response) or 0))
        with self._changed:
            self._in_flight -= 1
            self._remaining = min([self._remaining, *(remaining for remaining, _ in limits)])
            self._free = self._remaining - self._in_flight
            self._not_before = max([self._not_before, *(time.monotonic() + seconds for remaining, seconds in limits if remaining == 0)])
            self._changed.notify_all()
