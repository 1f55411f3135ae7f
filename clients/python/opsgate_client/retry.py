"""Sends requests as fast as the limits of the token allow, and repeats them until they succeed."""

import math
import random
import re
import socket
import ssl
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

ATTEMPTS = 8
ATTEMPT_TIMEOUT = 30.0  # seconds
MAX_WAIT = 120.0  # seconds; a request that limits deny for longer in total fails
FIRST_BACKOFF = 0.25
LONGEST_YIELD = 30.0
TEMPORARY = {408, 409, 429, 502, 503, 504}


class RetryingTransport(httpx.HTTPTransport):
    """Repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an Idempotency-Key.

    It waits for Retry-After, or else twice as long after each of 8 attempts, and before each attempt until the limits allow a request. A
    429 with Retry-After costs no attempt; a request fails when these waits would be longer than `max_wait` seconds in total. A transport
    is for one token.
    """

    def __init__(self, *, max_wait: float = MAX_WAIT, **options: Any) -> None:
        super().__init__(**options)
        self._max_wait = max_wait
        self._pacer = Pacer(max_wait)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        repeatable = request.method == "GET" or "Idempotency-Key" in request.headers
        attempt, denied = 1, 0.0
        while True:
            wait = FIRST_BACKOFF * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
            cost = 1
            try:
                response = self._whole(request)
            except httpx.LocalProtocolError:  # its text has the token
                raise httpx.LocalProtocolError("a header of the request has a character that is not allowed", request=request) from None
            except httpx.TransportError as error:
                if not repeatable or attempt == ATTEMPTS or not can_pass(error):
                    raise
            else:
                after = retry_after(response)
                if response.status_code == 429 and after:
                    cost, denied = 0, denied + after
                    wait = after + random.random()  # not in step with others that share the token
                elif after:
                    wait = after
                if denied and response.status_code != 429:
                    self._pacer.give_way(denied)
                last = attempt == ATTEMPTS and cost > 0
                if not repeatable or last or response.status_code not in TEMPORARY or max(denied, after or 0) > self._max_wait:
                    return response
            time.sleep(wait)
            attempt += cost

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


def can_pass(error: BaseException | None) -> bool:
    """Reports whether a request may succeed when it is repeated: not to an unknown host, or one with an invalid certificate."""
    if isinstance(error, httpx.UnsupportedProtocol | ssl.SSLCertVerificationError):
        return False
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
        return False
    return error is None or can_pass(error.__cause__ or error.__context__)


def retry_after(response: httpx.Response) -> int | None:
    """Returns the seconds of Retry-After, which may be a date."""
    text = response.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]+", text):
        return int(text[:9])  # 9 digits are years
    try:
        return max(0, math.ceil(parsedate_to_datetime(text).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return None


class Pacer:
    """Delays requests so that none exceeds a limit, by the RateLimit header of each response. Threads share it."""

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait  # longer waits are left to the API, which returns a 429
        self._changed = threading.Condition()
        self._in_flight = 0
        self._free = 0  # requests that may be sent beside those in flight; the first request is sent alone
        self._remaining: float = 0  # least of the responses since no request was in flight
        self._not_before = 0.0

    def wait(self) -> None:
        """Returns when a request may be sent."""
        with self._changed:
            while (wait := self._delay()) > 0:
                self._changed.wait(min(wait, threading.TIMEOUT_MAX))
            if self._in_flight == 0:
                self._remaining = float("inf")
            self._in_flight += 1
            self._free -= 1

    def _delay(self) -> float:
        wait = self._not_before - time.monotonic()
        if 0 < wait <= self._max_wait:
            return wait
        return 0.0 if self._free > 0 or self._in_flight == 0 else threading.TIMEOUT_MAX

    def give_way(self, denied: float) -> None:
        """Delays the next request after one that was denied for some seconds: others share the token.

        Those who come when the limit has just room for them would keep the others out.
        """
        with self._changed:
            wait = random.uniform(0, min(2 * denied, LONGEST_YIELD))
            self._not_before = max(self._not_before, time.monotonic() + wait)

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
