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
