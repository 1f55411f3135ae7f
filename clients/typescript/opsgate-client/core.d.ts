/** The API refused a request, also after repeats. `code` is stable, `message` is not. */
export class APIError extends Error {
  readonly status: number;
  readonly code: string;
  /** A text for each invalid field of a 422, and what is missing of a 403. */
  readonly details: Record<string, string>;
  readonly requestId: string | null;
  /** Seconds. */
  readonly retryAfter: number | null;
}

export interface CallOptions {
  signal?: AbortSignal;
}

export interface WriteOptions extends CallOptions {
  /** Repeats a write of another run. Without it, a new key is used for the repeats of this call. */
  idempotencyKey?: string;
}

/** Sends requests with a token to the API at a URL. Iterators restart a list if the API ignores their cursor. */
export class Core {
  /** @param options `timeout` and `maxWait` are those of {@link newRetryingFetch}, which `fetch` replaces. */
  constructor(options: { baseUrl: string; token: string; timeout?: number; maxWait?: number; fetch?: typeof globalThis.fetch });
}
