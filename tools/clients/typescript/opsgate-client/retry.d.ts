/**
 * A fetch for one token. It repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an
 * Idempotency-Key, after Retry-After, or else twice as long after each attempt. Before each attempt it waits until the limits allow a request.
 * An attempt may take `timeout` seconds, 30 by default.
 */
export function newRetryingFetch(options?: { timeout?: number }): typeof globalThis.fetch;
