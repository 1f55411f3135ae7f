package conformance_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// A state is the data of a faulty service.
type state struct {
	fixtures conformance.Fixtures
	sync.Map // what the fault keeps: rows and offsets by cursor, responses and errors by key
}

// other returns the other team.
func (s *state) other(team string) conformance.Team {
	if s.fixtures.Teams[0].ID == team {
		return s.fixtures.Teams[1]
	}
	return s.fixtures.Teams[0]
}

// team returns the team with the id.
func (s *state) team(id string) conformance.Team {
	return s.other(s.other(id).ID)
}

type handler = func(c *intercepted) (proto.Message, error)

// changeResponse returns a handler that changes responses of one type.
func changeResponse[M proto.Message](change func(c *intercepted, m M)) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if m, ok := response.(M); ok && err == nil {
			change(c, m)
		}
		return response, err
	}
}

// changeRequest returns a handler that changes requests of one type.
func changeRequest[M proto.Message](change func(c *intercepted, m M)) handler {
	return func(c *intercepted) (proto.Message, error) {
		if m, ok := c.request.(M); ok {
			change(c, m)
		}
		return c.pass(c.request)
	}
}

// onCode returns a handler for calls that end with the code.
func onCode(code codes.Code, handle func(c *intercepted, err error) (proto.Message, error)) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if status.Code(err) == code {
			return handle(c, err)
		}
		return response, err
	}
}

// accept returns a handler that replaces errors with the code by empty responses.
func accept(code codes.Code, when func(c *intercepted, err error) bool) handler {
	return onCode(code, func(c *intercepted, err error) (proto.Message, error) {
		if when(c, err) {
			return c.method.NewResponse(), nil
		}
		return nil, err
	})
}

// text returns a field of a message as text, or "".
func text(m proto.Message, field protoreflect.Name) string {
	if f := m.ProtoReflect().Descriptor().Fields().ByName(field); f != nil {
		return m.ProtoReflect().Get(f).String()
	}
	return ""
}

// with returns a copy of a message with another value of a text field.
func with(m proto.Message, field protoreflect.Name, value string) proto.Message {
	changed := proto.Clone(m)
	if f := m.ProtoReflect().Descriptor().Fields().ByName(field); f != nil {
		changed.ProtoReflect().Set(f, protoreflect.ValueOfString(value))
	}
	return changed
}

func team(c *intercepted) string { return text(c.request, "team_id") }

// reads reports whether the method reads the data of a team.
func reads(c *intercepted) bool { return c.method.TeamScoped() && !c.method.Writes() }

// invalidFields returns the fields in the violations of an error.
func invalidFields(err error) (fields []string) {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	return fields
}

// invalidArgument returns INVALID_ARGUMENT naming the fields.
func invalidArgument(fields ...string) error {
	bad := &errdetails.BadRequest{}
	for _, field := range fields {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: "is invalid"})
	}
	detailed, err := status.New(codes.InvalidArgument, "invalid").WithDetails(bad)
	if err != nil {
		panic(err)
	}
	return detailed.Err()
}

// generalFaults returns faults in rules that hold for all methods.

// requestsWithoutFields returns the checks that send a request without fields.

func requestsWithoutFields() []string {
	return []string{"*/probe", "fleet/ListServers/team-id", "monitoring/ListMonitors/team-id", "identity/ResolveToken/hash-length"}
}

func refuseRequestsWithoutFields(code codes.Code) handler {
	return func(c *intercepted) (proto.Message, error) {
		if c.method.IsProbe() && proto.Size(c.request) == 0 {
			return nil, status.Error(code, "refused")
		}
		return c.pass(c.request)
	}
}

// refuseEmptyLists refuses lists of teams that are not in the fixtures.

func refuseEmptyLists(code codes.Code) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if err == nil && c.method.Resource() == "" && c.method.Rows() != nil && c.state.team(team(c)).ID != team(c) {
			return nil, status.Error(code, "there is no such team")
		}
		return response, err
	}
}

// lengthOfKeys is the length of the valid idempotency keys of the checks.

const lengthOfKeys = 36

// refusesKey reports whether an error is about a valid idempotency key.

func refusesKey(c *intercepted, err error) bool {
	return slices.Contains(invalidFields(err), "idempotency_key") && len(text(c.request, "idempotency_key")) == lengthOfKeys
}

// ofTeams handles NOT_FOUND of methods that act for a team.

func ofTeams(handle func(c *intercepted, err error) (proto.Message, error)) handler {
	return onCode(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
		if team(c) == "" {
			return nil, err
		}
		return handle(c, err)
	})
}

// ofOtherTeam returns the request for the other team.

func (c *intercepted) ofOtherTeam() proto.Message {
	return with(c.request, "team_id", c.state.other(team(c)).ID)
}

// findResource returns the error with which a method that reads looks for the resource of the
// request, or nil.

func (c *intercepted) findResource() error {
	all := contract.Methods()
	at := slices.IndexFunc(all, func(m contract.Method) bool {
		return m.Resource() != "" && m.Resource() == c.method.Resource() && !m.Writes()
	})
	if at < 0 {
		return nil
	}
	id := text(c.request, protoreflect.Name(c.method.Resource()+"_id"))
	read := all[at].ReadRequest(contract.Target{Team: team(c), Resource: id, Since: clock()})
	return c.conn.Invoke(c.ctx, all[at].Path(), read, all[at].NewResponse())
}

// teamIDsBesideIDs returns the checks of team ids in requests that name a resource.

func teamIDsBesideIDs() []string {
	var names []string
	for _, m := range contract.Methods() {
		if m.TeamScoped() && m.Resource() != "" {
			names = append(names, m.String()+"/team-id")
		}
	}
	return names
}

// passedDeadline reports whether a call is one of a deadline check, which has a short deadline. The
// server passes deadlines on as metadata.

func passedDeadline(ctx context.Context) bool {
	timeouts := metadata.ValueFromIncomingContext(ctx, ignoredTimeout)
	return len(timeouts) == 1 && strings.HasSuffix(timeouts[0], "n") // only timeouts of less than 100 ms are in nanoseconds
}

// changedByMalform returns the well-formed checks of methods with responses that malform changes:
// all but those of the identity service.

func changedByMalform() []string {
	var names []string
	for _, m := range contract.Methods() {
		if m.TeamScoped() {
			names = append(names, m.String()+"/well-formed")
		}
	}
	return names
}

// boundsOfRequests returns the checks that only send invalid requests.

func boundsOfRequests() []string {
	var names []string
	for _, c := range conformance.Checks() {
		if strings.HasPrefix(c.Sentence, "INVALID_ARGUMENT") {
			names = append(names, c.Name)
		}
	}
	return names
}

// malform makes every time and colour of a response invalid. Times remain the same instants, so
// other checks still pass.

func malform(m protoreflect.Message) {
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		t.Seconds--
		t.Nanos += 1_000_000_000
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				malform(value.List().Get(i).Message())
			}
		case field.Message() != nil:
			malform(value.Message())
		case field.Name() == "color":
			m.Set(field, protoreflect.ValueOfString("blue"))
		}
		return true
	})
}

// reorderRows changes the order of rows on first pages.

func reorderRows(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	rows := c.method.Rows()
	if err != nil || rows == nil || c.followsPage(response) {
		return response, err
	}
	list := response.ProtoReflect().Mutable(rows).List()
	if list.Len() < 2 {
		return response, nil
	}
	if rows.Message().Fields().ByName("name") == nil && c.method.String() != "incident/ListStatusPageIncidents" {
		swapRows(list, 0, 1)
		return response, nil
	}
	for i := range list.Len() / 2 { // two swapped names may still be ordered, by bytes or by letters, and the newest of all incidents are too
		swapRows(list, i, list.Len()-1-i)
	}
	return response, nil
}

func swapRows(list protoreflect.List, i, j int) {
	a, b := list.Get(i), list.Get(j)
	list.Set(i, b)
	list.Set(j, a)
}

// followsPage reports whether the response is a page after the first.

func (c *intercepted) followsPage(response proto.Message) bool {
	if request, ok := c.request.(interface{ GetPage() int32 }); ok {
		return request.GetPage() > 1
	}
	page, ok := response.(interface{ GetCursorIgnored() bool })
	return ok && text(c.request, "cursor") != "" && !page.GetCursorIgnored()
}

// omitLast leaves the last of several rows with a name out of lists.

func omitLast(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	rows := c.method.Rows()
	if err != nil || rows == nil || rows.Message().Fields().ByName("name") == nil || rowsOf(c, response).Len() == 0 {
		return response, err
	}
	list := response.ProtoReflect().Mutable(rows).List()
	list.Truncate(max(1, list.Len()-1))
	return response, nil
}

// returnAnother changes the id of the resource that a request names.

func returnAnother(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if err != nil {
		return nil, err
	}
	if field := response.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(c.method.Resource())); field != nil {
		resource := response.ProtoReflect().Mutable(field).Message()
		resource.Set(field.Message().Fields().ByName("id"), protoreflect.ValueOfString(uuid.NewString()))
	}
	return response, nil
}

// leak adds the first team's response to the second team's, of the resource that the first team
// asked for last.

func leak(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	first, second := c.state.fixtures.Teams[0], c.state.fixtures.Teams[1]
	if err != nil || !reads(c) {
		return response, err
	}
	resource := protoreflect.Name(c.method.Resource() + "_id")
	if team(c) != second.ID {
		c.state.Store(resource, text(c.request, resource))
		return response, nil
	}
	otherRequest := with(c.request, "team_id", first.ID)
	if id, known := c.state.Load(resource); known {
		otherRequest = with(otherRequest, resource, id.(string))
	}
	leaked, err := c.pass(otherRequest)
	if err != nil {
		return response, nil //nolint:nilerr // the first team has no such resource
	}
	next := text(response, "next_cursor")
	proto.Merge(response, leaked)
	return with(response, "next_cursor", next), nil
}

// readFaults returns faults of methods that read.

// listFaults returns faults of lists with cursors.

// onLists handles calls of methods with cursors.

func onLists(handle handler) handler {
	return func(c *intercepted) (proto.Message, error) {
		if c.request.ProtoReflect().Descriptor().Fields().ByName("cursor") != nil {
			return handle(c)
		}
		return c.pass(c.request)
	}
}

// ignoring handles responses to cursors that the reference backend ignores. The kind identifies the
// list of a cursor of the reference

// backend; it is "" for other texts.

func ignoring(handle func(c *intercepted, response proto.Message, kind string) (proto.Message, error)) handler {
	return onLists(func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		field := fieldOf(c.method.NewResponse(), "cursor_ignored")
		if err != nil || !response.ProtoReflect().Get(field).Bool() {
			return response, err
		}
		const length = 17 // the kind and a UUID
		raw, err := base64.RawURLEncoding.DecodeString(text(c.request, "cursor"))
		if err != nil || len(raw) != length {
			return handle(c, response, "")
		}
		return handle(c, response, string(raw[:1]))
	})
}

// ofMethod reports whether the kind is that of the method's cursors.

func ofMethod(c *intercepted, kind string) bool {
	first := with(c.request, "cursor", "")
	setPageSize(first, 1)
	response, err := c.pass(first)
	if err != nil {
		return false
	}
	own, err := base64.RawURLEncoding.DecodeString(text(response, "next_cursor"))
	return err == nil && len(own) > 0 && kind == string(own[:1])
}

// byOffset uses the number of earlier rows as the cursor. The reference backend handles unknown
// cursors.

func byOffset(c *intercepted) (proto.Message, error) {
	owner := team(c) + c.method.String()
	before, _ := c.state.Load(owner + text(c.request, "cursor"))
	offset, _ := before.(int)
	response, err := c.skipping(offset)
	if err != nil || text(response, "next_cursor") == "" {
		return response, err
	}
	cursor := base64.RawURLEncoding.EncodeToString([]byte(uuid.NewString()))
	c.state.Store(owner+cursor, offset+int(pageSize(c.request)))
	return with(response, "next_cursor", cursor), nil
}

// skipping returns the page after the number of rows.

func (c *intercepted) skipping(rows int) (proto.Message, error) {
	if rows == 0 {
		return c.pass(c.request)
	}
	before := with(c.request, "cursor", "")
	for rows > 0 {
		const most = 100
		setPageSize(before, int32(min(rows, most)))
		rows -= min(rows, most)
		skipped, err := c.pass(before)
		if err != nil {
			return nil, err
		}
		before = with(before, "cursor", text(skipped, "next_cursor"))
	}
	return c.pass(with(c.request, "cursor", text(before, "cursor")))
}

func fieldOf(m proto.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.ProtoReflect().Descriptor().Fields().ByName(name)
}

func pageSize(m proto.Message) int32 {
	return int32(m.ProtoReflect().Get(fieldOf(m, "page_size")).Int())
}

func setPageSize(m proto.Message, size int32) {
	m.ProtoReflect().Set(fieldOf(m, "page_size"), protoreflect.ValueOfInt32(size))
}

func ignored(m proto.Message, is bool) proto.Message {
	m.ProtoReflect().Set(fieldOf(m, "cursor_ignored"), protoreflect.ValueOfBool(is))
	return m
}

// rowsOf returns the rows of a response.

func rowsOf(c *intercepted, response proto.Message) protoreflect.List {
	return response.ProtoReflect().Mutable(c.method.Rows()).List()
}

const resolved = incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED

// writeFaults returns faults of methods that write.

// resolvedOnce returns the time of the first resolution, or nil.

func resolvedOnce(updates []*incidentv1.IncidentUpdate) *timestamppb.Timestamp {
	for _, u := range updates {
		if u.Status == resolved {
			return u.CreatedAt
		}
	}
	return nil
}

// keyFaults returns faults of idempotency keys.

// onKeys handles calls with valid idempotency keys.

func onKeys(handle func(c *intercepted, key string) (proto.Message, error)) handler {
	return func(c *intercepted) (proto.Message, error) {
		if key := text(c.request, "idempotency_key"); len(key) == lengthOfKeys {
			return handle(c, key)
		}
		return c.pass(c.request)
	}
}

// shareKeys returns the response of another team with the same key.

func shareKeys(c *intercepted, key string) (proto.Message, error) {
	name := c.state.other(team(c)).ID + c.method.String() + key
	if before, used := c.state.Load(name); used {
		return before.(proto.Message), nil
	}
	response, err := c.pass(c.request)
	if err == nil {
		c.state.Store(team(c)+c.method.String()+key, response)
	}
	return response, err
}

// storeFailures repeats the error of an earlier call with the key.

func storeFailures(c *intercepted, key string) (proto.Message, error) {
	if before, failed := c.state.Load(key); failed {
		return nil, before.(error)
	}
	response, err := c.pass(c.request)
	if status.Code(err) == codes.InvalidArgument {
		c.state.Store(key, err)
	}
	return response, err
}

// lookupEarly executes two of several concurrent calls, because neither of them finds the key. The
// first call with a key waits for a second

// one for some time, because most calls are not concurrent.

func lookupEarly(c *intercepted, key string) (proto.Message, error) {
	mine := make(chan struct{})
	first, used := c.state.LoadOrStore(key, mine)
	if !used {
		select {
		case <-mine:
		case <-time.After(400 * time.Millisecond):
		case <-c.ctx.Done():
		}
	}
	const over = "the first call no longer waits"
	if waits := c.state.CompareAndSwap(key, first, over); used && first != over && waits {
		close(first.(chan struct{}))
		return c.pass(with(c.request, "idempotency_key", uuid.NewString()))
	}
	return c.pass(c.request)
}

// executeAbandoned executes calls with a short deadline after it, without their key.

func executeAbandoned(c *intercepted, _ string) (proto.Message, error) {
	if deadline, ends := c.ctx.Deadline(); !ends || time.Until(deadline) > time.Second {
		return c.pass(c.request)
	}
	<-c.ctx.Done()
	_, _ = c.passIn(context.WithoutCancel(c.ctx), with(c.request, "idempotency_key", ""))
	return nil, status.FromContextError(c.ctx.Err()).Err()
}

// executeOnce returns the earlier response to an equal request without a key.

func executeOnce(c *intercepted) (proto.Message, error) {
	if !c.method.Writes() || text(c.request, "idempotency_key") != "" {
		return c.pass(c.request)
	}
	name := c.method.String() + text(c.request, "title") + text(c.request, "incident_id") + text(c.request, "status") + text(c.request, "message")
	if before, executed := c.state.Load(name); executed {
		return before.(proto.Message), nil
	}
	response, err := c.pass(c.request)
	if err == nil {
		c.state.Store(name, response)
	}
	return response, err
}

type (
	watchRequest  = identityv1.WatchRevocationsRequest
	watchResponse = identityv1.WatchRevocationsResponse
)

// identityFaults returns faults of the identity service.

func ofRevokedToken(c *intercepted) bool {
	r, ok := c.request.(*identityv1.ResolveTokenRequest)
	return ok && string(r.TokenSha256) == string(c.state.fixtures.RevokedToken)
}

// revokedAs returns the error for a revoked token with the id.

func revokedAs(id string) error {
	return noToken(&errdetails.ErrorInfo{Reason: "TOKEN_REVOKED", Metadata: map[string]string{"token_id": id}})
}

func unknownToken() error { return noToken(&errdetails.ErrorInfo{Reason: "TOKEN_UNKNOWN"}) }

func noToken(info *errdetails.ErrorInfo) error {
	detailed, err := status.New(codes.NotFound, "no such token").WithDetails(info)
	if err != nil {
		panic(err)
	}
	return detailed.Err()
}

// ofTokens handles NOT_FOUND of ResolveToken.

func ofTokens(handle func(c *intercepted, err error) (proto.Message, error)) handler {
	return onCode(codes.NotFound, func(c *intercepted, err error) (proto.Message, error) {
		if c.method.String() == "identity/ResolveToken" {
			return handle(c, err)
		}
		return nil, err
	})
}

// dataFaults returns faults that only show in certain data: full pages, rows of one millisecond,
// old rows, long texts.

// changeMessages returns a handler that changes each message of a type in a response, so that
// methods agree with each other.
func changeMessages[M proto.Message](change func(M)) handler {
	return changeResponse(func(_ *intercepted, response proto.Message) {
		_ = protorange.Range(response.ProtoReflect(), func(p protopath.Values) error {
			if message, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
				if m, ok := message.Interface().(M); ok {
					change(m)
				}
			}
			return nil
		})
	})
}

var changeMonitors, changeIncidents = changeMessages[*monitoringv1.Monitor], changeMessages[*incidentv1.Incident]

// withTimelines returns a handler that changes each incident in a response by its timeline.
func withTimelines(change func(i *incidentv1.Incident, updates []*incidentv1.IncidentUpdate)) handler {
	return func(c *intercepted) (proto.Message, error) {
		return changeIncidents(func(i *incidentv1.Incident) {
			state := &incidentv1.GetIncidentResponse{}
			request := &incidentv1.GetIncidentRequest{TeamId: team(c), IncidentId: i.Id}
			if c.conn.Invoke(c.ctx, incidentv1.IncidentService_GetIncident_FullMethodName, request, state) == nil {
				change(i, state.Updates)
			}
		})(c)
	}
}

// auditMore returns a handler that adds an audit entry for writes with certain results.
func auditMore(when func(response proto.Message, err error) bool) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if actor, ok := c.request.(interface{ GetActor() *incidentv1.Actor }); ok && when(response, err) {
			c.state.Store("audited", &auditv1.AuditEntry{
				Id: uuid.NewString(), ActionType: "incident.refused", ResourceType: "incident", ResourceId: uuid.NewString(),
				ActorId: actor.GetActor().GetTokenId(), IpAddress: actor.GetActor().GetIpAddress(), CreatedAt: timestamppb.New(clock()),
			})
		}
		if m, ok := response.(*auditv1.ListAuditEntriesResponse); ok && err == nil {
			if entry, ok := c.state.Load("audited"); ok {
				m.Entries = slices.Insert(m.Entries, 0, entry.(*auditv1.AuditEntry))
			}
		}
		return response, err
	}
}

// ignoreInKeys returns a handler for which two requests are the same also if the field differs.
func ignoreInKeys(field protoreflect.Name) handler {
	return onKeys(func(c *intercepted, key string) (proto.Message, error) {
		before, _ := c.state.LoadOrStore(team(c)+c.method.String()+key, c.request)
		same, first := proto.Clone(c.request), before.(proto.Message)
		if f := fieldOf(same, field); f != nil {
			same.ProtoReflect().Clear(f)
			if first.ProtoReflect().Has(f) {
				same.ProtoReflect().Set(f, first.ProtoReflect().Get(f))
			}
		}
		return c.pass(same)
	})
}

// changeTexts returns a handler that changes the texts of writes.
func changeTexts(change func(string) string) handler {
	return func(c *intercepted) (proto.Message, error) {
		if !c.method.Writes() {
			return c.pass(c.request)
		}
		return c.pass(with(with(c.request, "title", change(text(c.request, "title"))), "message", change(text(c.request, "message"))))
	}
}

// moveTimes moves every time of a message.
func moveTimes(m protoreflect.Message, by time.Duration) {
	_ = protorange.Range(m, func(p protopath.Values) error {
		if message, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok {
			if t, ok := message.Interface().(*timestamppb.Timestamp); ok {
				t.Seconds += int64(by.Seconds())
			}
		}
		return nil
	})
}

// skipMillisecond leaves out a row with a time in the millisecond of the row before, on pages of
// one row.

func skipMillisecond(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if err != nil || rowsOf(c, response).Len() == 0 {
		return response, err
	}
	rows, owner := rowsOf(c, response), team(c)+c.method.String()
	millisecond := func(row proto.Message) int64 {
		return row.(interface{ GetCreatedAt() *timestamppb.Timestamp }).GetCreatedAt().AsTime().UnixMilli()
	}
	row := rows.Get(rows.Len() - 1).Message().Interface()
	c.state.Store(owner+text(response, "next_cursor"), row)
	before, known := c.state.Load(owner + text(c.request, "cursor"))
	if known && millisecond(before.(proto.Message)) == millisecond(row) && pageSize(c.request) == 1 {
		rows.Truncate(0)
	}
	return response, nil
}

// orderByStart returns a page of the commands in the order of their start.

func orderByStart(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	page, ok := response.(*fleetv1.ListServerCommandsResponse)
	if err != nil || !ok {
		return response, err
	}
	r := c.request.(*fleetv1.ListServerCommandsRequest)
	var all []*fleetv1.ServerCommand
	for n := int32(1); len(all) < int(page.Total); n++ {
		some, err := c.pass(&fleetv1.ListServerCommandsRequest{TeamId: r.TeamId, ServerId: r.ServerId, Page: n, PageSize: contract.MaxPageSize})
		if err != nil {
			return nil, err
		}
		all = append(all, some.(*fleetv1.ListServerCommandsResponse).Commands...)
	}
	slices.SortStableFunc(all, func(a, b *fleetv1.ServerCommand) int {
		return cmp.Or(b.GetStartedAt().AsTime().Compare(a.GetStartedAt().AsTime()), b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()))
	})
	from := min(int(r.Page-1)*int(r.PageSize), len(all))
	page.Commands = all[from:min(from+int(r.PageSize), len(all))]
	return page, nil
}

// auditResolutions leaves out the audit entries of other updates.

func auditResolutions(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	if err != nil {
		return nil, err
	}
	switch m := response.(type) {
	case *incidentv1.AddIncidentUpdateResponse:
		if m.Update.Status != resolved {
			c.state.Store(text(c.request, "incident_id")+m.Update.CreatedAt.String(), true)
		}
	case *auditv1.ListAuditEntriesResponse:
		m.Entries = slices.DeleteFunc(m.Entries, func(e *auditv1.AuditEntry) bool {
			_, hidden := c.state.Load(e.ResourceId + e.CreatedAt.String())
			return hidden
		})
	}
	return response, nil
}

const operational = incidentv1.PublicStatus_PUBLIC_STATUS_OPERATIONAL

// resourceFaults returns faults that only show with certain resources: a suspended page, a token of
// another plan, an open incident.
