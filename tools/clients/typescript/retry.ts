const attempts = 6;
const attemptTimeout = 5_000; // milliseconds
const firstBackoff = 250;
const temporary = [408, 409, 429, 502, 503, 504];

/**
 * A fetch that repeats a request after a temporary status, a cut response or a timeout, if it is a read or has an Idempotency-Key. It waits
 * for Retry-After, or else twice as long after each attempt.
 */
export const retryingFetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
  const request = new Request(input, init);
  const repeatable = request.method === "GET" || request.headers.has("Idempotency-Key");
  for (let attempt = 1, backoff = firstBackoff; ; attempt++, backoff *= 2) {
    let wait = backoff * (0.5 + Math.random());
    try {
      const response = await fetchWhole(request.clone());
      if (!repeatable || attempt === attempts || !temporary.includes(response.status)) {
        return response;
      }
      const seconds = Number(response.headers.get("Retry-After") ?? NaN);
      wait = Number.isNaN(seconds) ? wait : seconds * 1000;
    } catch (error) {
      if (!repeatable || attempt === attempts) {
        throw error;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
};

/** Reads the whole response, so that a cut response is an error here, where it is repeated. */
async function fetchWhole(request: Request): Promise<Response> {
  const response = await fetch(request, { signal: AbortSignal.timeout(attemptTimeout) });
  const { status, statusText, headers } = response;
  return new Response(await response.arrayBuffer(), { status, statusText, headers });
}

/** The list of all pages. A cursor that the API ignores restarts the list at its first page. */
export async function allPages<T>(
  next: (cursor?: string) => Promise<{ data?: { items: T[]; nextCursor: string | null }; error?: unknown; response?: Response }>,
): Promise<T[]> {
  let list: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const call = await next(cursor);
    const page = await ok(call);
    if (cursor !== undefined && call.response?.headers.get("Cursor-Status") === "ignored") {
      list = [];
    }
    list.push(...page.items);
    if (page.nextCursor === null) {
      return list;
    }
    cursor = page.nextCursor;
  }
}

/** The data of a response; it throws the error of a refused request. */
export async function ok<T>(
  call: PromiseLike<{ data?: T; error?: unknown; response?: Response }> | { data?: T; error?: unknown; response?: Response },
): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) {
    throw new Error(`${response?.status}: ${JSON.stringify(error)}`);
  }
  return data;
}
