/**
 * A fetch for one token. It repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an
 * Idempotency-Key, after Retry-After, or else twice as long after each of 8 attempts. Before each attempt it waits until the limits allow a
 * request. An attempt may take `timeout` seconds, 30 by default. A 429 with Retry-After costs no attempt; a request fails when these waits
 * would be longer than `maxWait` seconds in total, 120 by default.
 */
export function newRetryingFetch(options?: { timeout?: number; maxWait?: number }): typeof globalThis.fetch;
