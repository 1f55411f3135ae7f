package conformance_test

import (
	"crypto/rand"
	"html"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// faults returns all planted faults.
func faults() []fault {
	return []fault{
		// In rules for all methods.
		{name: "no health service", fails: []string{"*/Health/serving"}, noHealth: true},
		{name: "a request without fields is of no method", fails: requestsWithoutFields(), unary: refuseRequestsWithoutFields(codes.Unimplemented)},
		{name: "a request without fields is denied", fails: requestsWithoutFields(), unary: refuseRequestsWithoutFields(codes.PermissionDenied)},
		{name: "a team without rows is NOT_FOUND", fails: []string{"*/no-rows"}, unary: refuseEmptyLists(codes.NotFound)},
		{name: "a team without rows is PERMISSION_DENIED", fails: []string{"*/no-rows"}, unary: refuseEmptyLists(codes.PermissionDenied)},
		{name: "deadlines are ignored", fails: []string{"*/deadline"}, noDeadlines: true},
		{name: "writes are executed after their deadline", noDeadlines: true,
			fails: []string{"incident/CreateIncident/deadline", "incident/AddIncidentUpdate/deadline"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				if passedDeadline(c.ctx) {
					return nil, status.Error(codes.DeadlineExceeded, "too late")
				}
				return response, err
			}},
		{name: "responses are malformed", fails: changedByMalform(),
			unary: changeResponse(func(_ *intercepted, m proto.Message) { malform(m.ProtoReflect()) })},
		{name: "lists are in the wrong order", unary: reorderRows, fails: []string{
			"*/order", "*/of-the-page", "incident/AddIncidentUpdate/longest", "incident/AddIncidentUpdate/verbatim", "incident/AddIncidentUpdate/adds",
		}},
		{name: "lists are incomplete", fails: []string{"*/complete"}, unary: omitLast},
		{name: "another resource is returned", unary: returnAnother,
			fails: []string{"*/the-one-asked-for", "*/same-as-list", "incident/CreateIncident/creates"}},
		{name: "any text is a team id", fails: []string{"*/team-id"},
			unary: accept(codes.InvalidArgument, func(_ *intercepted, err error) bool { return slices.Contains(invalidFields(err), "team_id") })},
		{name: "an invalid team has no resources", fails: teamIDsBesideIDs(),
			unary: onCode(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if c.method.Resource() != "" && slices.Contains(invalidFields(err), "team_id") {
					return nil, status.Error(codes.NotFound, "no such "+c.method.Resource())
				}
				return nil, err
			})},
		{name: "unknown ids are found before invalid fields", fails: []string{"*/invalid-first"},
			unary: onCode(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if unknown := c.findResource(); status.Code(unknown) == codes.NotFound {
					return nil, unknown
				}
				return nil, err
			})},
		{name: "a team reads the other team's data too", fails: []string{"*/isolation", "incident/GetStatusPage/complete"}, unary: leak},
		{name: "ids are valid for every team", fails: []string{"*/foreign-id"},
			unary: ofTeams(func(c *intercepted, _ error) (proto.Message, error) { return c.pass(c.ofOtherTeam()) })},
		{name: "errors differ for unknown ids and ids of another team", fails: []string{"*/foreign-id"},
			unary: ofTeams(func(c *intercepted, err error) (proto.Message, error) {
				if _, foreign := c.pass(c.ofOtherTeam()); foreign == nil {
					return nil, status.Error(codes.NotFound, "belongs to another team")
				}
				return nil, err
			})},
		{name: "unknown ids are INTERNAL", fails: []string{"*/unknown-id", "*/foreign-id", "incident/AddIncidentUpdate/audited-once"},
			unary: ofTeams(func(*intercepted, error) (proto.Message, error) {
				return nil, status.Error(codes.Internal, "sql: no rows in result set")
			})},
		{name: "errors name no field", unary: onCode(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
			return nil, status.Error(codes.InvalidArgument, status.Convert(err).Message())
		}),
			fails: slices.Concat(boundsOfRequests(), []string{"*/team-id", "*/idempotent-other-request", "*/idempotent-other-method"})},
		{name: "invalid fields are accepted", fails: append(boundsOfRequests(), "*/idempotent-failure", "*/audited-once"),
			unary: accept(codes.InvalidArgument, func(c *intercepted, err error) bool {
				return !slices.Contains(invalidFields(err), "team_id") && !refusesKey(c, err)
			})},
		{name: "only the first violation is returned", fails: []string{"*/all-violations"},
			unary: onCode(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
				return nil, invalidArgument(invalidFields(err)[0])
			})},

		// In methods that read.
		{name: "a page has incidents that are not attached to it", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) {
				if len(m.Incidents) > 0 {
					m.Incidents[0].StatusPageId = nil
				}
			})},
		{name: "a page beyond the end has no total", fails: []string{"fleet/ListServerCommands/beyond"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if len(m.Commands) == 0 {
					m.Total = 0
				}
			})},
		{name: "a page too far names page_size", fails: []string{"fleet/ListServerCommands/page"},
			unary: onCode(codes.InvalidArgument, func(c *intercepted, err error) (proto.Message, error) {
				if r, ok := c.request.(*fleetv1.ListServerCommandsRequest); ok && r.Page > 0 && slices.Contains(invalidFields(err), "page") {
					return nil, invalidArgument("page_size")
				}
				return nil, err
			})},
		{name: "pages overlap", fails: []string{"fleet/ListServerCommands/pages", "fleet/ListServerCommands/total"},
			unary: changeResponse(func(c *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if c.request.(*fleetv1.ListServerCommandsRequest).Page == 2 {
					m.Commands = m.Commands[min(1, len(m.Commands)):]
				}
			})},
		{name: "points are outside the range", fails: []string{"fleet/GetServerMetrics/within-range"}, unproved: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					p.At = timestamppb.New(p.At.AsTime().AddDate(0, 0, -10))
				}
			})},
		{name: "ranges begin with an hour that is only partly in them", fails: []string{"fleet/GetServerMetrics/within-range"},
			unary: changeResponse(func(c *intercepted, m *fleetv1.GetServerMetricsResponse) {
				if r := c.request.(*fleetv1.GetServerMetricsRequest); r.Range == fleetv1.MetricRange_METRIC_RANGE_LAST_7D && len(m.Points) > 0 {
					before := proto.CloneOf(m.Points[0])
					before.At.Seconds -= 3600
					m.Points = slices.Insert(m.Points, 0, before)
				}
			})},
		{name: "ranges end with the last complete hour", fails: []string{"fleet/GetServerMetrics/month"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				m.Points = slices.DeleteFunc(m.Points, func(p *fleetv1.MetricPoint) bool {
					return m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY && p.At.AsTime().After(clock().Add(-time.Hour))
				})
			})},
		{name: "raw points have the resolution hourly", fails: []string{"fleet/GetServerMetrics/resolution"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				m.Resolution = fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY
			})},
		{name: "rollups are not means", fails: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					if m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
						p.CpuPercent /= 2
					}
				}
			})},
		{name: "rollups of the memory are not means", fails: []string{"fleet/GetServerMetrics/rollup"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.GetServerMetricsResponse) {
				for _, p := range m.Points {
					if m.Resolution == fleetv1.MetricResolution_METRIC_RESOLUTION_HOURLY {
						p.RamUsedMb /= 2
					}
				}
			})},
		{name: "since is exclusive", fails: []string{"monitoring/ListMonitorChecks/since-inclusive"},
			unary: changeResponse(func(c *intercepted, m *monitoringv1.ListMonitorChecksResponse) {
				since := c.request.(*monitoringv1.ListMonitorChecksRequest).Since
				m.Checks = slices.DeleteFunc(m.Checks, func(m *monitoringv1.MonitorCheck) bool { return proto.Equal(m.CheckedAt, since) })
			})},
		{name: "a time in the future is ignored", fails: []string{"monitoring/ListMonitorChecks/since-future"},
			unary: changeRequest(func(_ *intercepted, m *monitoringv1.ListMonitorChecksRequest) {
				if m.Since != nil && m.Since.AsTime().After(clock()) {
					m.Since = timestamppb.New(clock().Add(-24 * time.Hour))
				}
			})},

		// In lists with cursors.
		{name: "pages are larger than page_size", fails: []string{"*/page-size-kept", "*/walk-one-millisecond"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				if size := pageSize(c.request); size > 0 && size < 100 {
					setPageSize(c.request, size+1)
				}
				return c.pass(c.request)
			})},
		{name: "pages start with the row that the cursor names", fails: []string{"*/walk", "*/walk-under-writes", "*/walk-one-millisecond"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				if err != nil || pageSize(c.request) == contract.MaxPageSize {
					return response, err
				}
				owner := team(c) + c.method.String()
				if last, known := c.state.Load(owner + text(c.request, "cursor")); known {
					list := rowsOf(c, response)
					again := proto.Clone(response)
					list.Truncate(0)
					list.Append(protoreflect.ValueOfMessage(last.(proto.Message).ProtoReflect()))
					proto.Merge(response, again)
				}
				if next := text(response, "next_cursor"); next != "" {
					rows := rowsOf(c, response)
					c.state.Store(owner+next, rows.Get(rows.Len()-1).Message().Interface())
				}
				return response, nil
			})},
		{name: "cursors are offsets", fails: []string{"*/walk-under-writes", "*/walk-one-millisecond"}, unary: onLists(byOffset)},
		{name: "cursors are not base64", fails: []string{"*/cursor-format"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(with(c.request, "cursor", strings.TrimPrefix(text(c.request, "cursor"), "row:")))
				if err != nil || text(response, "next_cursor") == "" {
					return response, err
				}
				return with(response, "next_cursor", "row:"+text(response, "next_cursor")), nil
			})},
		{name: "cursor_ignored is always set", fails: []string{"*/cursor-recognised"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				return ignored(response, true), err
			})},
		{name: "malformed cursors are errors", fails: []string{"*/cursor-malformed"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if kind == "" {
					return nil, status.Error(codes.InvalidArgument, "bad cursor")
				}
				return response, nil
			})},
		{name: "cursors of other methods are recognised", fails: []string{"*/cursor-of-another-method"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if kind != "" && !ofMethod(c, kind) {
					return ignored(response, false), nil
				}
				return response, nil
			})},
		{name: "cursors of other teams are recognised", fails: []string{"*/cursor-of-another-team"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if ofMethod(c, kind) {
					return ignored(response, false), nil
				}
				return response, nil
			})},

		// In the prefixes of the audit log.
		{name: "matching entries are missing", fails: []string{"audit/ListAuditEntries/prefix", "audit/ListAuditEntries/prefix-paged"},
			unary: changeResponse(func(c *intercepted, m *auditv1.ListAuditEntriesResponse) {
				if text(c.request, "action_prefix") != "" && len(m.Entries) > 0 {
					m.Entries = m.Entries[1:]
				}
			})},
		{name: "prefixes have wildcards", fails: []string{"audit/ListAuditEntries/prefix-literal"},
			unary: changeRequest(func(_ *intercepted, m *auditv1.ListAuditEntriesRequest) {
				if at := strings.IndexAny(m.ActionPrefix, "%_"); at >= 0 {
					m.ActionPrefix = m.ActionPrefix[:at]
				}
			})},
		{name: "prefixes ignore case", fails: []string{"audit/ListAuditEntries/prefix-case"},
			unary: changeRequest(func(_ *intercepted, m *auditv1.ListAuditEntriesRequest) {
				m.ActionPrefix = strings.ToLower(m.ActionPrefix)
			})},

		// In methods that write.
		{name: "the response differs from the incident", fails: []string{"incident/CreateIncident/creates"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.IsMaintenance = true })},
		{name: "incidents are created without resolved_at", fails: []string{"incident/CreateIncident/resolved", "incident/CreateIncident/creates"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.ResolvedAt = nil })},
		{name: "incidents are not attached to the page", fails: []string{"incident/CreateIncident/attached"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) { m.Incident.StatusPageId = nil })},
		{name: "lengths are counted in bytes", fails: []string{"incident/CreateIncident/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				if len(text(c.request, "title")) > 255 {
					return nil, invalidArgument("title")
				}
				return c.pass(c.request)
			}},
		{name: "writes are not audited", fails: []string{"*/audited", "*/audited-once"},
			unary: changeResponse(func(_ *intercepted, m *auditv1.ListAuditEntriesResponse) {
				for _, e := range m.Entries {
					if strings.HasPrefix(e.ActionType, "incident.") {
						e.ActorId = e.Id
					}
				}
			})},
		{name: "updates do not change the status", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/reopens"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Updates[0].Status == resolved { // no incident that other checks leave behind
					m.Incident.Status = resolved
				}
			})},
		{name: "a second resolution changes resolved_at", fails: []string{"incident/AddIncidentUpdate/resolves", "incident/GetIncident/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.Status == resolved {
					m.Incident.ResolvedAt = m.Updates[len(m.Updates)-1].CreatedAt
				}
			})},
		{name: "reopened incidents keep resolved_at", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/reopens"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Incident.ResolvedAt == nil {
					m.Incident.ResolvedAt = resolvedOnce(m.Updates)
				}
			})},

		// In idempotency keys.
		{name: "keys are ignored", unary: onKeys(func(c *intercepted, _ string) (proto.Message, error) {
			return c.pass(with(c.request, "idempotency_key", ""))
		}),
			fails: []string{
				"*/idempotent-replay", "*/idempotent-actor", "*/idempotent-other-request", "*/idempotent-other-method", "*/idempotent-concurrent",
				"*/idempotent-replay-later", "*/given-up", "*/audited-once", "*/idempotent-order",
			}},
		{name: "keys depend on the actor", fails: []string{"*/idempotent-actor"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				actor := c.request.(interface{ GetActor() *incidentv1.Actor }).GetActor()
				return c.pass(with(c.request, "idempotency_key", key+actor.GetTokenId()))
			})},
		{name: "keys depend on the method", fails: []string{"*/idempotent-other-method"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				return c.pass(with(c.request, "idempotency_key", key+c.method.String()))
			})},
		{name: "a key with another request is accepted", fails: []string{"*/idempotent-other-request", "*/idempotent-other-method", "*/audited-once"},
			unary: accept(codes.InvalidArgument, refusesKey)},
		{name: "keys are shared by all teams", fails: []string{"*/idempotent-other-team"}, unary: onKeys(shareKeys)},
		{name: "failures are stored", fails: []string{"*/idempotent-failure"}, unary: onKeys(storeFailures)},
		{name: "keys are looked up before the transaction", fails: []string{"*/idempotent-concurrent"}, unary: onKeys(lookupEarly)},
		{name: "abandoned calls are executed without their key", fails: []string{"*/given-up"}, unary: onKeys(executeAbandoned)},
		{name: "equal requests without key are executed once", fails: []string{"*/without-key"}, unary: executeOnce},

		// In the identity service.
		{name: "tokens belong to another team", fails: []string{"identity/ResolveToken/known"},
			unary: changeResponse(func(c *intercepted, m *identityv1.ResolveTokenResponse) { m.TeamId = c.state.other(m.TeamId).ID })},
		{name: "token ids are not UUIDs", fails: []string{"identity/ResolveToken/well-formed"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.TokenId = "token-" + m.TokenId })},
		{name: "team ids of tokens are in upper case", fails: []string{"identity/ResolveToken/well-formed", "identity/ResolveToken/known"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) {
				m.TeamId = strings.ToUpper("a" + m.TeamId[1:])
			})},
		{name: "limit classes change", fails: []string{"identity/ResolveToken/limit-class"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.LimitClass = rand.Text() })},
		{name: "limit classes have blanks", fails: []string{"identity/ResolveToken/limit-class"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.LimitClass = "gold plus" })},
		{name: "expired tokens are resolved", fails: []string{"identity/ResolveToken/expiry"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) {
				m.ExpiresAt = timestamppb.New(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
			})},
		{name: "expiries change", fails: []string{"identity/ResolveToken/expiry"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) {
				m.ExpiresAt = timestamppb.New(time.Now().Add(time.Hour))
			})},
		{name: "tokens that do not expire have an expiry", fails: []string{"identity/ResolveToken/well-formed", "identity/ResolveToken/expiry"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.ExpiresAt = new(timestamppb.Timestamp) })},
		{name: "token_id of revoked tokens is not a UUID", fails: []string{"identity/ResolveToken/revoked-id"},
			unary: ofTokens(func(c *intercepted, err error) (proto.Message, error) {
				if ofRevokedToken(c) {
					return nil, revokedAs("not a UUID")
				}
				return nil, err
			})},
		{name: "revoked tokens are resolved", fails: []string{"identity/ResolveToken/revoked"},
			unary: accept(codes.NotFound, func(c *intercepted, _ error) bool { return ofRevokedToken(c) })},
		{name: "unresolved tokens have no reason",
			fails: []string{"identity/ResolveToken/unknown", "identity/ResolveToken/revoked", "identity/WatchRevocations/revocation"},
			unary: ofTokens(func(*intercepted, error) (proto.Message, error) {
				return nil, status.Error(codes.NotFound, "no such token")
			})},
		{name: "streams start without a position",
			fails: []string{"identity/WatchRevocations/first-message", "identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, n int, m *watchResponse) bool {
				if n == 0 {
					m.Position = ""
				}
				return true
			}},
		{name: "streams have no heartbeats", fails: []string{"identity/WatchRevocations/heartbeats", "identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, n int, _ *watchResponse) bool { return n == 0 }},
		{name: "streams have no messages", stream: func(*watchRequest, int, *watchResponse) bool { return false },
			fails: []string{
				"identity/WatchRevocations/first-message", "identity/WatchRevocations/heartbeats", "identity/WatchRevocations/resume",
				"identity/WatchRevocations/revocation",
			}},
		{name: "streams start from another position", fails: []string{"identity/WatchRevocations/resume"},
			stream: func(r *watchRequest, _ int, m *watchResponse) bool {
				if r.AfterPosition != "" {
					m.Position += "0"
				}
				return true
			}},
		{name: "unknown positions are accepted",
			fails:          []string{"identity/WatchRevocations/unknown-position", "identity/WatchRevocations/revocation"},
			ignorePosition: true},

		// That only show in certain data: full pages, rows of one millisecond, old rows, long
		// texts.
		{name: "a replay has the present incident", fails: []string{"incident/CreateIncident/idempotent-replay-later"},
			unary: changeResponse(func(c *intercepted, m *incidentv1.CreateIncidentResponse) {
				if m.Replayed {
					present := &incidentv1.GetIncidentResponse{}
					request := &incidentv1.GetIncidentRequest{TeamId: team(c), IncidentId: m.Incident.Id}
					if c.conn.Invoke(c.ctx, incidentv1.IncidentService_GetIncident_FullMethodName, request, present) == nil {
						m.Incident = present.Incident
					}
				}
			})},
		{name: "messages are cut", fails: []string{"*/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				const stored, longest = 1000, 10_000
				if message := []rune(text(c.request, "message")); c.method.Writes() && len(message) > stored && len(message) <= longest {
					return c.pass(with(c.request, "message", string(message[:stored])))
				}
				return c.pass(c.request)
			}},
		{name: "only updates that resolve are audited", fails: []string{"incident/AddIncidentUpdate/audited"}, unary: auditResolutions},
		{name: "prefixes apply after paging", fails: []string{"audit/ListAuditEntries/prefix-paged"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(with(c.request, "action_prefix", ""))
				if m, ok := response.(*auditv1.ListAuditEntriesResponse); ok && err == nil {
					m.Entries = slices.DeleteFunc(m.Entries, func(e *auditv1.AuditEntry) bool {
						return !strings.HasPrefix(e.ActionType, text(c.request, "action_prefix"))
					})
				}
				return response, err
			}},
		{name: "cursors skip the rest of a millisecond", fails: []string{"*/walk-one-millisecond"}, unary: onLists(skipMillisecond)},
		{name: "totals are too high", fails: []string{"fleet/ListServerCommands/total"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServerCommandsResponse) { m.Total++ })},
		{name: "commands are ordered by started_at", fails: []string{"fleet/ListServerCommands/order"}, unary: orderByStart},
		{name: "rows are those of one server",
			fails: []string{"fleet/ListScheduledCommands/of-the-server", "fleet/ListServerCommands/of-the-server"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				if err != nil || c.method.Resource() != "server" || c.method.Rows() == nil || team(c) != first {
					return response, err
				}
				return c.pass(with(c.request, "server_id", "0b411d95-7d62-5ca5-9268-573f3d300034"))
			}},
		{name: "a page has at most 50 incidents", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) {
				m.Incidents = m.Incidents[:min(len(m.Incidents), 50)]
			})},
		{name: "30 days are seven", fails: []string{"fleet/GetServerMetrics/month"},
			unary: changeRequest(func(_ *intercepted, m *fleetv1.GetServerMetricsRequest) {
				if m.Range == fleetv1.MetricRange_METRIC_RANGE_LAST_30D {
					m.Range = fleetv1.MetricRange_METRIC_RANGE_LAST_7D
				}
			})},
		{name: "since is at most a day ago", unproved: []string{"monitoring/ListMonitorChecks/since-old"},
			unary: changeRequest(func(_ *intercepted, m *monitoringv1.ListMonitorChecksRequest) {
				if day := clock().Add(-24 * time.Hour); m.Since != nil && m.Since.AsTime().Before(day) {
					m.Since = timestamppb.New(day)
				}
			})},
		{name: "uptime is a fraction", fails: []string{"monitoring/ListMonitors/last-check"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) { m.UptimePercent = proto.Float64(m.GetUptimePercent() / 100) })},
		{name: "last_check_at is not that of the last check", fails: []string{"monitoring/ListMonitors/last-check"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) {
				if m.LastCheckAt != nil {
					m.LastCheckAt.Seconds -= m.GetLastCheckAt().GetSeconds() % 3600
				}
			})},

		// That only show with certain resources: a suspended page, a token of another plan, an open
		// incident.
		{name: "components ignore their monitors", fails: []string{"incident/GetStatusPage/linked-component"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.GetStatusPageResponse) {
				for _, component := range m.Components {
					component.Status = operational
				}
			})},
		{name: "the overall status is constant", fails: []string{"incident/GetStatusPage/overall-status"},
			unary: func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				switch m := response.(type) {
				case *incidentv1.GetStatusPageResponse:
					if err == nil {
						m.StatusPage.OverallStatus = operational
					}
				case *incidentv1.ListStatusPagesResponse:
					for _, page := range m.StatusPages {
						page.OverallStatus = operational
					}
				}
				return response, err
			}},
		{name: "the list has another impact", fails: []string{"incident/GetIncident/same-as-list", "*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListIncidentsResponse) {
				for _, incident := range m.Incidents {
					incident.Impact = incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR
				}
			})},
		{name: "lists lack resolved_at", fails: []string{"incident/GetIncident/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m interface {
				proto.Message
				GetIncidents() []*incidentv1.Incident
			}) {
				for _, incident := range m.GetIncidents() {
					incident.ResolvedAt = nil
				}
			})},
		{name: "the list lacks last_seen_at", fails: []string{"fleet/GetServer/same-as-list"},
			unary: changeResponse(func(_ *intercepted, m *fleetv1.ListServersResponse) {
				for _, server := range m.Servers {
					server.LastSeenAt = nil
				}
			})},
		{name: "a page has only open incidents", fails: []string{"*/of-the-page"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPageIncidentsResponse) {
				m.Incidents = slices.DeleteFunc(m.Incidents, func(i *incidentv1.Incident) bool { return i.Status == resolved })
			})},
		{name: "disabled monitors are left out", fails: []string{"monitoring/ListMonitors/complete"},
			unary: changeResponse(func(_ *intercepted, m *monitoringv1.ListMonitorsResponse) {
				m.Monitors = slices.DeleteFunc(m.Monitors, func(m *monitoringv1.Monitor) bool { return !m.Enabled })
			})},
		{name: "disabled monitors are enabled", unproved: []string{"monitoring/ListMonitors/complete"},
			unary: changeMonitors(func(m *monitoringv1.Monitor) { m.Enabled = true })},
		{name: "suspended pages are left out", fails: []string{"incident/ListStatusPages/complete", "incident/GetStatusPage/complete"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.ListStatusPagesResponse) {
				m.StatusPages = slices.DeleteFunc(m.StatusPages, func(p *incidentv1.StatusPage) bool { return p.Suspended })
			})},
		{name: "tokens have no scopes", fails: []string{"identity/ResolveToken/scopes"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.Scopes = nil })},
		{name: "every team has the plan ai", fails: []string{"identity/ResolveToken/plan"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.Plan = identityv1.Plan_PLAN_AI })},
		{name: "a revocation is returned once", fails: []string{"identity/ResolveToken/revoked"},
			unary: ofTokens(func(c *intercepted, err error) (proto.Message, error) {
				if _, again := c.state.LoadOrStore(text(c.request, "token_sha256"), true); again && ofRevokedToken(c) {
					return nil, unknownToken()
				}
				return nil, err
			})},
		{name: "streams have no revocations", fails: []string{"identity/WatchRevocations/revocation"},
			stream: func(_ *watchRequest, _ int, m *watchResponse) bool {
				m.Revocation = nil
				return true
			}},
		{name: "resumed streams have no revocations", fails: []string{"identity/WatchRevocations/revocation"},
			stream: func(r *watchRequest, _ int, m *watchResponse) bool {
				if r.AfterPosition != "" {
					m.Revocation = nil
				}
				return true
			}},

		// In what only another value, an old row or another character shows.
		{name: "the name that gateways watch is not serving", fails: []string{"*/Health/watched"}, notServing: true},
		{name: "a second resolution has the status monitoring", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/resolves"},
			unary: withTimelines(func(i *incidentv1.Incident, updates []*incidentv1.IncidentUpdate) {
				if n := len(updates); n > 1 && updates[n-1].Status == resolved && updates[n-2].Status == resolved {
					i.Status = incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING
				}
			})},
		{name: "resolving again after a reopening has no resolved_at", fails: []string{"incident/AddIncidentUpdate/adds", "incident/AddIncidentUpdate/resolves"},
			unary: withTimelines(func(i *incidentv1.Incident, updates []*incidentv1.IncidentUpdate) {
				if n := len(updates); n > 2 && i.Status == resolved && updates[n-2].Status != resolved && updates[n-3].Status == resolved {
					i.ResolvedAt = nil
				}
			})},
		{name: "the impact is none", fails: []string{"incident/CreateIncident/creates", "incident/GetStatusPage/overall-status"},
			unary: changeRequest(func(_ *intercepted, m *incidentv1.CreateIncidentRequest) {
				if _, known := incidentv1.IncidentImpact_name[int32(m.Impact)]; known && m.Impact > 1 && m.IdempotencyKey == "" {
					m.Impact = incidentv1.IncidentImpact_INCIDENT_IMPACT_NONE
				}
			})},
		{name: "critical incidents are major", fails: []string{"incident/CreateIncident/creates"},
			unary: changeIncidents(func(i *incidentv1.Incident) {
				if i.Impact == incidentv1.IncidentImpact_INCIDENT_IMPACT_CRITICAL {
					i.Impact = incidentv1.IncidentImpact_INCIDENT_IMPACT_MAJOR
				}
			})},
		{name: "incidents are created as monitoring instead of identified", fails: []string{"incident/CreateIncident/creates"},
			unary: changeResponse(func(_ *intercepted, m *incidentv1.CreateIncidentResponse) {
				if m.Incident.Status == incidentv1.IncidentStatus_INCIDENT_STATUS_IDENTIFIED {
					m.Incident.Status = incidentv1.IncidentStatus_INCIDENT_STATUS_MONITORING
				}
			})},
		{name: "a token with few scopes belongs to another team", fails: []string{"identity/ResolveToken/known"},
			unary: changeResponse(func(c *intercepted, m *identityv1.ResolveTokenResponse) {
				if len(m.Scopes) == 1 {
					m.TeamId = c.state.other(m.TeamId).ID
				}
			})},
		{name: "tokens of a team share an id", fails: []string{"identity/ResolveToken/known"},
			unary: changeResponse(func(_ *intercepted, m *identityv1.ResolveTokenResponse) { m.TokenId = m.TeamId })},
		{name: "keys have at most 200 characters", fails: []string{"*/longest", "*/idempotent-exact"},
			unary: func(c *intercepted) (proto.Message, error) {
				if len(text(c.request, "idempotency_key")) > 200 {
					return nil, invalidArgument("idempotency_key")
				}
				return c.pass(c.request)
			}},
		{name: "keys are cut to 250 characters", fails: []string{"*/idempotent-exact"},
			unary: func(c *intercepted) (proto.Message, error) {
				if key := text(c.request, "idempotency_key"); len(key) > 250 && len(key) < 256 {
					return c.pass(with(c.request, "idempotency_key", key[:250]))
				}
				return c.pass(c.request)
			}},
		{name: "keys ignore case", fails: []string{"*/idempotent-exact"},
			unary: func(c *intercepted) (proto.Message, error) {
				return c.pass(with(c.request, "idempotency_key", strings.ToLower(text(c.request, "idempotency_key"))))
			}},
		{name: "an incident has room for 50 updates", fails: []string{"incident/AddIncidentUpdate/room"},
			unary: func(c *intercepted) (proto.Message, error) {
				if n, _ := c.state.LoadOrStore("updates "+text(c.request, "incident_id"), new(atomic.Int32)); c.method.String() == "incident/AddIncidentUpdate" &&
					n.(*atomic.Int32).Add(1) > 50 {
					return nil, invalidArgument("message")
				}
				return c.pass(c.request)
			}},
		{name: "a team may have 100 open incidents", fails: []string{"incident/CreateIncident/open-incidents"},
			unary: func(c *intercepted) (proto.Message, error) {
				open := 0
				c.state.Range(func(any, any) bool { open++; return true })
				if r, ok := c.request.(*incidentv1.CreateIncidentRequest); ok && r.Status != resolved && open >= 100 {
					return nil, invalidArgument("title")
				}
				response, err := c.pass(c.request)
				switch m := response.(type) {
				case *incidentv1.CreateIncidentResponse:
					if err == nil && m.Incident.ResolvedAt == nil {
						c.state.Store(m.Incident.Id, true)
					}
				case *incidentv1.AddIncidentUpdateResponse:
					if text(c.request, "status") == "4" {
						c.state.Delete(text(c.request, "incident_id"))
					}
				}
				return response, err
			}},
		{name: "replays are audited", fails: []string{"*/audited-once"},
			unary: auditMore(func(response proto.Message, _ error) bool {
				again, ok := response.(interface{ GetReplayed() bool })
				return ok && again.GetReplayed()
			})},
		{name: "refused writes are audited", fails: []string{"*/audited-once"},
			unary: auditMore(func(_ proto.Message, err error) bool { return status.Code(err) == codes.InvalidArgument })},
		{name: "updates of unknown incidents are audited", fails: []string{"incident/AddIncidentUpdate/audited-once"},
			unary: auditMore(func(_ proto.Message, err error) bool { return status.Code(err) == codes.NotFound })},
		{name: "keys depend on the order of component_ids", fails: []string{"incident/CreateIncident/idempotent-order"},
			unary: onKeys(func(c *intercepted, key string) (proto.Message, error) {
				if r, ok := c.request.(*incidentv1.CreateIncidentRequest); ok && len(r.ComponentIds) > 1 {
					if first, known := c.state.LoadOrStore(team(c)+key, r.ComponentIds[0]); known && first != r.ComponentIds[0] {
						return nil, invalidArgument("idempotency_key")
					}
				}
				return c.pass(c.request)
			})},
		{name: "keys ignore component_ids", fails: []string{"incident/CreateIncident/idempotent-other-request"}, unary: ignoreInKeys("component_ids")},
		{name: "keys ignore status_page_id", fails: []string{"incident/CreateIncident/idempotent-other-request"}, unary: ignoreInKeys("status_page_id")},
		{name: "keys ignore impact", fails: []string{"incident/CreateIncident/idempotent-other-request"}, unary: ignoreInKeys("impact")},
		{name: "keys ignore the incident", fails: []string{"incident/AddIncidentUpdate/idempotent-other-request"}, unary: ignoreInKeys("incident_id")},
		{name: "keys ignore notify_subscribers", fails: []string{"incident/AddIncidentUpdate/idempotent-other-request"}, unary: ignoreInKeys("notify_subscribers")},
		{name: "times of incidents are an hour early", fails: []string{"incident/CreateIncident/creates", "incident/AddIncidentUpdate/adds"},
			unary: changeResponse(func(c *intercepted, m proto.Message) {
				if c.method.Service() == "incident" {
					moveTimes(m.ProtoReflect(), -time.Hour)
				}
			})},
		{name: "times of the audit log are an hour early", fails: []string{"*/audited"},
			unary: changeResponse(func(_ *intercepted, m *auditv1.ListAuditEntriesResponse) { moveTimes(m.ProtoReflect(), -time.Hour) })},
		{name: "servers were seen in the future", fails: []string{"fleet/GetServer/well-formed", "fleet/ListServers/well-formed"},
			unary: changeMessages(func(m *fleetv1.Server) {
				m.LastSeenAt = timestamppb.New(clock().Truncate(24 * time.Hour).Add(48 * time.Hour))
			})},
		{name: "prefixes end at words", fails: []string{"audit/ListAuditEntries/prefix"},
			unary: changeResponse(func(c *intercepted, m *auditv1.ListAuditEntriesResponse) {
				prefix := text(c.request, "action_prefix")
				m.Entries = slices.DeleteFunc(m.Entries, func(e *auditv1.AuditEntry) bool {
					rest := strings.TrimPrefix(e.ActionType, prefix)
					return prefix != "" && rest != "" && !strings.HasSuffix(prefix, ".") && !strings.HasPrefix(rest, ".")
				})
			})},
		{name: "old commands ended in the year 1", fails: []string{"fleet/ListServerCommands/well-formed"},
			unary: changeResponse(func(c *intercepted, m *fleetv1.ListServerCommandsResponse) {
				if c.request.(*fleetv1.ListServerCommandsRequest).Page == 2 {
					for _, command := range m.Commands {
						command.FinishedAt = timestamppb.New(time.Time{})
					}
				}
			})},
		{name: "old checks have an unknown status", fails: []string{"monitoring/ListMonitorChecks/well-formed"},
			unary: changeResponse(func(_ *intercepted, m *monitoringv1.ListMonitorChecksResponse) {
				for _, check := range m.Checks {
					if check.CheckedAt.AsTime().Before(clock().Add(-48 * time.Hour)) {
						check.Status = 0
					}
				}
			})},
		{name: "old incidents have an unknown impact", fails: []string{
			"incident/GetIncident/well-formed", "incident/ListIncidents/well-formed", "incident/ListStatusPageIncidents/well-formed",
		},
			unary: changeIncidents(func(i *incidentv1.Incident) {
				if i.CreatedAt.AsTime().Before(clock().Add(-48 * time.Hour)) {
					i.Impact = 99
				}
			})},
		{name: "updates of old incidents have an unknown status", fails: []string{"incident/GetIncident/well-formed"},
			unary: changeResponse(func(c *intercepted, m *incidentv1.GetIncidentResponse) {
				if m.Updates[0].CreatedAt.AsTime().Before(clock().Add(-48 * time.Hour)) {
					m.Updates[0].Status = 0
				}
			})},
		{name: "lengths are counted in UTF-16", fails: []string{"*/longest"},
			unary: func(c *intercepted) (proto.Message, error) {
				for field, longest := range map[protoreflect.Name]int{"title": 255, "message": 10_000} {
					if len(utf16.Encode([]rune(text(c.request, field)))) > longest {
						return nil, invalidArgument(string(field))
					}
				}
				return c.pass(c.request)
			}},
		{name: "combined characters count as one", fails: []string{"incident/CreateIncident/title"},
			unary: func(c *intercepted) (proto.Message, error) {
				if title := text(c.request, "title"); strings.Contains(strings.Repeat("e\u0301", 255), title) && title != "" {
					return c.pass(with(c.request, "title", "combined"))
				}
				return c.pass(c.request)
			}},
		{name: "characters outside the BMP are replaced", fails: []string{"*/longest", "*/verbatim"}, unary: changeTexts(func(text string) string {
			return strings.Map(func(r rune) rune {
				if r > 0xffff {
					return '?'
				}
				return r
			}, text)
		})},
		{name: "texts are escaped", fails: []string{"*/verbatim"}, unary: changeTexts(html.EscapeString)},
		{name: "texts are normalized", fails: []string{"*/verbatim", "incident/CreateIncident/title"}, unary: changeTexts(func(text string) string {
			return strings.ReplaceAll(text, "e\u0301", "é")
		})},
		{name: "an absent description is empty", fails: []string{"incident/GetStatusPage/well-formed", "incident/ListStatusPages/well-formed"},
			unary: changeMessages(func(m *incidentv1.StatusPage) {
				if m.Description == nil {
					m.Description = new(string)
				}
			})},
		{name: "an absent group is empty", fails: []string{"incident/GetStatusPage/well-formed"},
			unary: changeMessages(func(m *incidentv1.StatusPageComponent) {
				if m.GroupName == nil {
					m.GroupName = new(string)
				}
			})},
		{name: "servers that were never seen were seen in 1970", fails: []string{"fleet/GetServer/well-formed", "fleet/ListServers/well-formed"},
			unary: changeMessages(func(m *fleetv1.Server) {
				if m.LastSeenAt == nil {
					m.LastSeenAt = &timestamppb.Timestamp{}
				}
			})},
		{name: "commands that have not ended have a zero time", fails: []string{"fleet/ListServerCommands/well-formed"},
			unary: changeMessages(func(m *fleetv1.ServerCommand) {
				if m.FinishedAt == nil {
					m.FinishedAt = timestamppb.New(time.Time{})
				}
			})},
	}
}
