import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import ops.ApiException;
import ops.ApiResponse;

/** Repeats calls until they succeed, and reads all pages of a list. */
final class Retry {
  private static final int ATTEMPTS = 8;
  private static final long FIRST_BACKOFF = 250; // milliseconds
  private static final Set<Integer> TEMPORARY = Set.of(408, 409, 429, 502, 503, 504);

  static final Duration ATTEMPT_TIMEOUT = Duration.ofSeconds(5);

  /** A call of the API: a read, or a write with an Idempotency-Key. */
  interface Call<T> {
    T send() throws ApiException;
  }

  /** A page of a list. */
  record Page<T>(List<T> items, String nextCursor) {}

  private Retry() {}

  /**
   * Repeats a call after a temporary status, a cut response or a timeout. It waits for Retry-After, or else twice as long after each
   * attempt.
   */
  static <T> T call(Call<T> call) throws ApiException, InterruptedException {
    long backoff = FIRST_BACKOFF;
    for (int attempt = 1; ; attempt++, backoff *= 2) {
      try {
        return call.send();
      } catch (ApiException e) {
        boolean lost = e.getCode() == 0 && e.getCause() instanceof IOException;
        if (attempt == ATTEMPTS || !(lost || TEMPORARY.contains(e.getCode()))) {
          throw e;
        }
        Thread.sleep(waitFor(e, backoff));
      }
    }
  }

  private static long waitFor(ApiException e, long backoff) {
    if (e.getResponseHeaders() != null) {
      var seconds = e.getResponseHeaders().firstValue("Retry-After");
      if (seconds.isPresent() && seconds.get().matches("[0-9]{1,9}")) {
        return Long.parseLong(seconds.get()) * 1000;
      }
    }
    return backoff / 2 + ThreadLocalRandom.current().nextLong(backoff);
  }

  /** A call that returns a page, given a cursor; null for the first page. */
  interface PageCall<P> {
    ApiResponse<P> send(String cursor) throws ApiException;
  }

  /** Returns the items of all pages. A cursor that the API ignores restarts the list at its first page. */
  static <P, T> List<T> allPages(PageCall<P> next, Function<P, Page<T>> read) throws ApiException, InterruptedException {
    var list = new ArrayList<T>();
    for (String cursor = null; ; ) {
      String sent = cursor;
      var response = call(() -> next.send(sent));
      if (sent != null && response.getHeaders().getOrDefault("cursor-status", List.of()).contains("ignored")) {
        list.clear();
      }
      var page = read.apply(response.getData());
      list.addAll(page.items());
      cursor = page.nextCursor();
      if (cursor == null) {
        return list;
      }
    }
  }
}
