import { newRetryingFetch, retryAfter } from "./retry.js";

const restarts = 3;

export class APIError extends Error {
  constructor(response, text) {
    const requestId = response.headers.get("X-Request-Id");
    let body;
    try {
      body = JSON.parse(text);
    } catch {} // not from the API, but from a proxy before it
    const { code = "", error = text, details = {} } = body ?? {};
    super(`${response.status} ${code}: ${error} ${JSON.stringify(details)} (request ${requestId})`);
    const after = retryAfter(response.headers);
    Object.assign(this, { name: "APIError", status: response.status, code, details, requestId, retryAfter: Number.isNaN(after) ? null : after });
  }
}

export class Core {
  #base;
  #token;
  #fetch;

  constructor({ baseUrl, token, timeout, maxWait, fetch = newRetryingFetch({ timeout, maxWait }) }) {
    if (!URL.canParse(baseUrl) || !/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/.test(baseUrl)) {
      throw new TypeError("the URL of the API must be like https://api.example.com, without a user, a query and a fragment");
    }
    if (!/^[!-~]+$/.test(token ?? "")) {
      throw new TypeError("the token is empty, or has a character that no token has, such as a space or a line end");
    }
    this.#base = baseUrl.replace(/\/$/, "");
    this.#token = token;
    this.#fetch = fetch;
  }

  async #send(method, path, { signal, idempotencyKey, ...query } = {}, body) {
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) {
        url.searchParams.set(name, value);
      }
    }
    const headers = { Authorization: `Bearer ${this.#token}` };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["Idempotency-Key"] = idempotencyKey ?? crypto.randomUUID();
    }
    const response = await this.#fetch(url, { method, headers, signal, body: JSON.stringify(body) });
    const text = (await response.text()).replaceAll(this.#token, "[token]"); // a proxy may return the request
    if (response.status !== 200) {
      throw new APIError(response, text);
    }
    return { page: JSON.parse(text), restarted: response.headers.get("Cursor-Status") === "ignored" };
  }

  async _call(...request) {
    return (await this.#send(...request)).page;
  }

  async *_all(path, options) {
    const seen = new Set();
    for (let left = restarts; ; ) {
      const { page, restarted } = await this.#send("GET", path, options);
      if (restarted && left-- === 0) {
        throw new Error("the API accepts no cursor");
      }
      for (const item of page.items) {
        if (!seen.has(item.id)) {
          seen.add(item.id);
          yield item;
        }
      }
      if (page.nextCursor === null || page.page * page.pageSize >= page.total) {
        return;
      }
      options = { ...options, ...(page.nextCursor ? { cursor: page.nextCursor } : { page: page.page + 1 }) };
    }
  }
}
