const attempts = 8;
const attemptTimeout = 30; // seconds
const longestDenial = 120; // seconds
const firstBackoff = 250; // milliseconds
const longestYield = 30_000;
const temporary = [408, 409, 429, 502, 503, 504];

export function newRetryingFetch({ timeout = attemptTimeout, maxWait = longestDenial } = {}) {
  const pacer = new Pacer(maxWait * 1000);
  return async (input, init) => {
    const request = new Request(input, init);
    const repeatable = request.method === "GET" || request.headers.has("Idempotency-Key");
    for (let attempt = 1, denied = 0; ; ) {
      let wait = firstBackoff * 2 ** (attempt - 1) * (0.5 + Math.random());
      let cost = 1;
      try {
        const response = await pacer.run(() => fetchWhole(request.clone(), timeout), request.signal);
        const after = retryAfter(response.headers) * 1000 || 0;
        if (response.status === 429 && after > 0) {
          cost = 0;
          denied += after;
          wait = after + 1000 * Math.random(); // not in step with others that share the token
        } else if (after > 0) {
          wait = after;
        }
        if (denied > 0 && response.status !== 429) {
          pacer.giveWay(denied);
        }
        const last = attempt === attempts && cost > 0;
        if (!repeatable || last || !temporary.includes(response.status) || Math.max(denied, after) > maxWait * 1000) {
          return response;
        }
      } catch (error) {
        if (!repeatable || attempt === attempts || request.signal.aborted || !canPass(error)) {
          throw error;
        }
      }
      await sleep(wait, request.signal);
      attempt += cost;
    }
  };
}

/** Reports whether a request may succeed when it is repeated: not to an unknown host, or one with an invalid certificate. */
function canPass(error) {
  return error.name === "TimeoutError" || /^(E(?!NOTFOUND|RR_)|UND_ERR_(?!INVALID)|Z_)/.test(error.cause?.code ?? "");
}

/** Reads the whole response, so that a cut response is an error here, where it is repeated. */
async function fetchWhole(request, timeout) {
  const response = await fetch(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(timeout * 1000)]) });
  const { status, statusText, headers } = response;
  const body = await response.arrayBuffer();
  return new Response(body.byteLength > 0 ? body : null, { status, statusText, headers }); // a 304 must not have a body
}

/** Returns the seconds of Retry-After, which may be a date; NaN for none. */
export function retryAfter(headers) {
  const text = headers.get("Retry-After") ?? "";
  return /^\d+$/.test(text) ? Number(text) : Math.max(0, Math.ceil((Date.parse(text) - Date.now()) / 1000));
}

/** Waits, at most until the signal is aborted. */
async function sleep(milliseconds, signal) {
  signal.throwIfAborted();
  await new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal.removeEventListener("abort", stop), resolve()), milliseconds);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** Delays requests so that none exceeds a limit, by the RateLimit header of each response. */
class Pacer {
  #maxWait; // longer waits are left to the API, which returns a 429
  #inFlight = 0;
  #free = 0; // requests that may be sent beside those in flight; the first request is sent alone
  #remaining = 0; // least of the responses since no request was in flight
  #notBefore = 0;
  #waiting = [];

  constructor(maxWait) {
    this.#maxWait = maxWait;
  }

  async run(send, signal) {
    await this.#admit(signal);
    let response;
    try {
      return (response = await send());
    } finally {
      this.#done(response);
    }
  }

  /**
   * Delays the next request after one that was denied for some time: others share the token. Those who come when the limit has just room for
   * them would keep the others out.
   */
  giveWay(denied) {
    const wait = Math.random() * Math.min(2 * denied, longestYield);
    this.#notBefore = Math.max(this.#notBefore, performance.now() + wait);
  }

  async #admit(signal) {
    for (;;) {
      const wait = this.#notBefore - performance.now();
      if (wait > 0 && wait <= this.#maxWait) {
        await sleep(wait, signal);
      } else if (this.#free > 0 || this.#inFlight === 0) {
        this.#remaining = this.#inFlight === 0 ? Infinity : this.#remaining;
        this.#inFlight++;
        this.#free--;
        return;
      } else {
        await new Promise((resolve) => this.#waiting.push(resolve));
        signal.throwIfAborted();
      }
    }
  }

  #done(response) {
    const limits = [...(response?.headers.get("RateLimit") ?? "").matchAll(/r=(\d+);t=(\d+)/g)].map(([, r, t]) => [Number(r), Number(t)]);
    if (response?.status === 429) {
      limits.push([0, retryAfter(response.headers) || 0]);
    }
    this.#inFlight--;
    this.#remaining = Math.min(this.#remaining, ...limits.map(([remaining]) => remaining));
    this.#free = this.#remaining - this.#inFlight;
    for (const [remaining, seconds] of limits) {
      if (remaining === 0) {
        this.#notBefore = Math.max(this.#notBefore, performance.now() + seconds * 1000);
      }
    }
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }
}
