import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import javax.net.ssl.SSLHandshakeException;
import ops.ApiException;
import ops.ApiResponse;

/** Repeats calls until they succeed, and reads all pages of a list. */
final class Retry {
  private static final int ATTEMPTS = 8;
  private static final long MAX_WAIT = 120_000; // milliseconds; a call that limits deny for longer in total fails
  private static final long FIRST_BACKOFF = 250;
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
   * attempt. A 429 with Retry-After costs no attempt.
   */
  static <T> T call(Call<T> call) throws ApiException, InterruptedException {
    long denied = 0;
    for (int attempt = 1; ; ) {
      try {
        return call.send();
      } catch (ApiException e) {
        long after = retryAfter(e);
        boolean isDenial = e.getCode() == 429 && after > 0;
        denied += isDenial ? after : 0;
        long backoff = FIRST_BACKOFF << (attempt - 1);
        long wait = after > 0 ? after : backoff / 2 + ThreadLocalRandom.current().nextLong(backoff);
        boolean last = attempt == ATTEMPTS && !isDenial;
        if (last || !(isLost(e) || TEMPORARY.contains(e.getCode())) || Math.max(denied, wait) > MAX_WAIT) {
          throw e;
        }
        Thread.sleep(wait);
        attempt += isDenial ? 0 : 1;
      }
    }
  }

  /** Reports whether there was no answer, and a repeated call may get one: not without a valid certificate. */
  private static boolean isLost(ApiException e) {
    return e.getCode() == 0 && e.getCause() instanceof IOException && !(e.getCause() instanceof SSLHandshakeException);
  }

  /** Returns the milliseconds of Retry-After; 0 for none. */
  private static long retryAfter(ApiException e) {
    if (e.getResponseHeaders() == null) {
      return 0;
    }
    var seconds = e.getResponseHeaders().firstValue("Retry-After").filter(text -> text.matches("[0-9]+"));
    return seconds.map(text -> Long.parseLong(text.substring(0, Math.min(text.length(), 9)))).orElse(0L) * 1000; // 9 digits are years
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
