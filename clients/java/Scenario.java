import com.fasterxml.jackson.core.JsonProcessingException;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.UUID;
import ops.ApiClient;
import ops.ApiException;
import ops.api.AuditLogApi;
import ops.api.IncidentsApi;
import ops.api.MonitorsApi;
import ops.api.ServersApi;
import ops.api.StatusPagesApi;
import ops.api.TokenApi;
import ops.model.Command;
import ops.model.ErrorBody;
import ops.model.Forbidden;
import ops.model.IncidentImpact;
import ops.model.IncidentStatus;
import ops.model.Invalid;
import ops.model.MetricsRange;
import ops.model.IncidentInput;
import ops.model.IncidentUpdateInput;

/**
 * Calls each kind of operation of the API with the client that openapi-generator generates.
 *
 * <p>"tour" calls them; "errors" provokes errors and decodes each; "me" prints the id of a token. All print JSON. OPSCTL_URL is the address
 * of the API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team
 * without the plan.
 */
final class Scenario {
  private Scenario() {}

  public static void main(String[] commands) throws Exception {
    for (String command : commands) {
      Object found =
          switch (command) {
            case "tour" -> tour(newClient(System.getenv("OPSCTL_TOKEN")));
            case "errors" -> errors();
            default -> Retry.call(new TokenApi(newClient(System.getenv("OPSCTL_TOKEN")))::v1Me).getTokenId();
          };
      System.out.println(ApiClient.createDefaultObjectMapper().writeValueAsString(found));
    }
  }

  /** Returns a client that sends the token with each request. */
  private static ApiClient newClient(String token) {
    var client = new ApiClient();
    client.updateBaseUri(System.getenv("OPSCTL_URL"));
    client.setReadTimeout(Retry.ATTEMPT_TIMEOUT);
    client.setRequestInterceptor(request -> request.setHeader("Authorization", "Bearer " + token));
    return client;
  }

  private static Map<String, Object> tour(ApiClient client) throws ApiException, InterruptedException {
    var found = new LinkedHashMap<String, Object>();
    var anHourAgo = OffsetDateTime.now().minusHours(1);
    found.put("scopes", Retry.call(new TokenApi(client)::v1Me).getScopes().size());

    var fleet = new ServersApi(client);
    var servers = Retry.call(fleet::v1ListServers);
    found.put("servers", servers.size());
    found.put("groups", Retry.call(fleet::v1ListServerGroups).size());
    UUID id = servers.stream().filter(server -> server.getName().equals("db-primary")).findFirst().orElseThrow().getId();
    found.put("server", Retry.call(() -> fleet.v1GetServer(id)).getName());
    var points = Retry.call(() -> fleet.v1GetServerMetrics(id, MetricsRange.LAST_HOUR)).getPoints();
    found.put("scheduledCommands", Retry.call(() -> fleet.v1ListServerScheduledCommands(id)).size());
    var commands = new ArrayList<Command>();
    for (int page = 1, total = 1; commands.size() < total; page++) {
      int number = page;
      var answer = Retry.call(() -> fleet.v1ListServerCommands(id, number, 10));
      commands.addAll(answer.getItems());
      total = answer.getTotal();
    }
    found.put("commands", commands.size());

    var monitoring = new MonitorsApi(client);
    var monitors = Retry.call(monitoring::v1ListMonitors);
    found.put("monitors", monitors.size());
    var checks = Retry.call(() -> monitoring.v1ListMonitorChecks(monitors.get(0).getId(), anHourAgo));
    found.put("recent", points.get(points.size() - 1).getAt().isAfter(anHourAgo) && checks.get(0).getCheckedAt().isAfter(anHourAgo));

    var status = new StatusPagesApi(client);
    var pages = Retry.call(status::v1ListStatusPages);
    found.put("pages", pages.size());
    var page = Retry.call(() -> status.v1GetStatusPage(pages.get(0).getId()));
    found.put("components", page.getComponents().size());
    found.put("pageIncidents", Retry.call(() -> status.v1ListStatusPageIncidents(page.getId())).size());

    var incidents = new IncidentsApi(client);
    var key = UUID.randomUUID().toString();
    var body = newIncident("Deployment failed", "The deployment failed.");
    var created = Retry.call(() -> incidents.v1CreateIncident(body, key));
    var again = Retry.call(() -> incidents.v1CreateIncidentWithHttpInfo(body, key));
    var replayed = again.getHeaders().getOrDefault("idempotent-replayed", List.of()).contains("true");
    found.put("replayed", replayed && again.getData().getId().equals(created.getId()));
    var resolve =
        new IncidentUpdateInput().status(IncidentStatus.RESOLVED).message("The deployment succeeded.").notifySubscribers(false);
    var updateKey = UUID.randomUUID().toString();
    Retry.call(() -> incidents.v1AddIncidentUpdate(created.getId(), resolve, updateKey));
    var incident = Retry.call(() -> incidents.v1GetIncident(created.getId()));
    found.put("updates", incident.getUpdates().size());
    found.put(
        "resolved",
        incident.getStatus() == IncidentStatus.RESOLVED && !incident.getResolvedAt().isBefore(incident.getCreatedAt()));

    var list =
        Retry.allPages(
            cursor -> incidents.v1ListIncidentsWithHttpInfo(null, cursor),
            answer -> new Retry.Page<>(answer.getItems(), answer.getNextCursor()));
    found.put("incidents", list.size());
    var audit = new AuditLogApi(client);
    var entries =
        Retry.allPages(
            cursor -> audit.v1ListAuditWithHttpInfo("incident.", null, cursor),
            answer -> new Retry.Page<>(answer.getItems(), answer.getNextCursor()));
    found.put("auditEntries", entries.size());
    return found;
  }

  private static IncidentInput newIncident(String title, String message) {
    return new IncidentInput().title(title).status(IncidentStatus.INVESTIGATING).impact(IncidentImpact.MINOR).message(message);
  }

  private static List<String> errors() throws JsonProcessingException {
    var client = newClient(System.getenv("OPSCTL_TOKEN"));
    var reader = newClient(System.getenv("OPSCTL_READ_TOKEN"));
    var noPlan = newClient(System.getenv("OPSCTL_NO_PLAN_TOKEN"));
    var texter = newClient(null);
    texter.setRequestInterceptor(client.getRequestInterceptor().andThen(request -> request.setHeader("Content-Type", "text/plain")));
    var body = newIncident("T", "M");

    var unknown = refused(ErrorBody.class, () -> new TokenApi(newClient("ops_live_unknown")).v1Me());
    var noScope = refused(Forbidden.class, () -> new IncidentsApi(reader).v1CreateIncident(body, null));
    var unpaid = refused(Forbidden.class, () -> new TokenApi(noPlan).v1Me());
    var missing = refused(ErrorBody.class, () -> new ServersApi(client).v1GetServer(UUID.randomUUID()));
    var large = refused(ErrorBody.class, () -> new IncidentsApi(client).v1CreateIncident(newIncident("T", "M".repeat(200_000)), null));
    var text = refused(ErrorBody.class, () -> new IncidentsApi(texter).v1CreateIncident(body, null));
    var invalid = refused(Invalid.class, () -> new IncidentsApi(client).v1CreateIncident(newIncident("", ""), null));
    Refusal<ErrorBody> limited;
    do {
      limited = refused(ErrorBody.class, () -> new TokenApi(reader).v1Me());
    } while (limited == null);
    return List.of(
        unknown.body().getCode(),
        noScope.body().getCode() + " required=" + noScope.body().getDetails().getRequired(),
        unpaid.body().getCode() + " requiredPlan=" + unpaid.body().getDetails().getRequiredPlan(),
        missing.body().getCode(),
        large.body().getCode(),
        text.body().getCode(),
        invalid.body().getCode() + " " + String.join(",", new TreeSet<>(invalid.body().getDetails().keySet())),
        limited.body().getCode() + " retry-after=" + limited.cause().getResponseHeaders().firstValue("Retry-After").orElseThrow());
  }

  private record Refusal<E>(E body, ApiException cause) {}

  /** Returns the error of a call, decoded; null if the call succeeds. */
  private static <E> Refusal<E> refused(Class<E> type, Retry.Call<?> call) throws JsonProcessingException {
    try {
      call.send();
      return null;
    } catch (ApiException e) {
      return new Refusal<>(ApiClient.createDefaultObjectMapper().readValue(e.getResponseBody(), type), e);
    }
  }
}
