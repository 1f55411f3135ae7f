package conformance_test

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/conformance"
	"opsgate/proto/contract"
)

// generalFaults returns faults in rules that hold for all methods.
func generalFaults() []fault {
	return []fault{
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
		{name: "lists are in the wrong order", fails: []string{"*/order", "*/of-the-page"}, unary: reorderRows},
		{name: "lists are incomplete", unary: omitFixtures, unproved: []string{"incident/ListStatusPages/isolation"},
			fails: []string{"*/complete", "*/last-check", "*/linked-component", "*/of-the-page"}},
		{name: "another resource is returned", unary: returnAnother,
			fails: []string{"*/the-one-asked-for", "*/same-as-list", "incident/CreateIncident/creates"}},
		{name: "any text is a team id", fails: []string{"*/team-id"},
			unary: accept(codes.InvalidArgument, func(_ *intercepted, err error) bool { return slices.Contains(invalidFields(err), "team_id") })},
		{name: "a team reads the other team's data too", fails: []string{"*/isolation"}, unary: leak},
		{name: "ids are valid for every team", fails: []string{"*/foreign-id"},
			unary: ofTeams(func(c *intercepted, _ error) (proto.Message, error) { return c.pass(c.ofOtherTeam()) })},
		{name: "errors differ for unknown ids and ids of another team", fails: []string{"*/foreign-id"},
			unary: ofTeams(func(c *intercepted, err error) (proto.Message, error) {
				if _, foreign := c.pass(c.ofOtherTeam()); foreign == nil {
					return nil, status.Error(codes.NotFound, "belongs to another team")
				}
				return nil, err
			})},
		{name: "unknown ids are INTERNAL", fails: []string{"*/unknown-id", "*/foreign-id"},
			unary: ofTeams(func(*intercepted, error) (proto.Message, error) {
				return nil, status.Error(codes.Internal, "sql: no rows in result set")
			})},
		{name: "errors name no field", unary: onCode(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
			return nil, status.Error(codes.InvalidArgument, status.Convert(err).Message())
		}),
			fails: slices.Concat(boundsOfRequests(), []string{"*/team-id", "*/idempotent-other-request", "*/idempotent-other-method"})},
		{name: "invalid fields are accepted", fails: append(boundsOfRequests(), "*/idempotent-failure"),
			unary: accept(codes.InvalidArgument, func(c *intercepted, err error) bool {
				return !slices.Contains(invalidFields(err), "team_id") && !refusesKey(c, err)
			})},
		{name: "only the first violation is returned", fails: []string{"*/all-violations"},
			unary: onCode(codes.InvalidArgument, func(_ *intercepted, err error) (proto.Message, error) {
				return nil, invalidArgument(invalidFields(err)[0])
			})},
	}
}

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

// passedDeadline reports whether a call is one of a deadline check, which has a short deadline. The server passes deadlines on as metadata.
func passedDeadline(ctx context.Context) bool {
	timeouts := metadata.ValueFromIncomingContext(ctx, ignoredTimeout)
	return len(timeouts) == 1 && strings.HasSuffix(timeouts[0], "n") // only timeouts of less than 100 ms are in nanoseconds
}

// changedByMalform returns the well-formed checks of methods with responses that malform changes: all but those of the identity service.
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

// malform makes every time and colour of a response invalid. Times remain the same instants, so other checks still pass.
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

// reorderRows changes the order of rows on first pages, and in lists of the fixtures' resources.
func reorderRows(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	rows := c.method.Rows()
	if err != nil || rows == nil || !c.namesFixture() || c.followsPage(response) {
		return response, err
	}
	list := response.ProtoReflect().Mutable(rows).List()
	if list.Len() < 2 {
		return response, nil
	}
	if rows.Message().Fields().ByName("name") == nil {
		swapRows(list, 0, 1)
		return response, nil
	}
	for i := range list.Len() / 2 { // two swapped names may still be ordered, by bytes or by letters
		swapRows(list, i, list.Len()-1-i)
	}
	return response, nil
}

func swapRows(list protoreflect.List, i, j int) {
	a, b := list.Get(i), list.Get(j)
	list.Set(i, b)
	list.Set(j, a)
}

// namesFixture reports whether the request names no resource, or one of the fixtures.
func (c *intercepted) namesFixture() bool {
	resource := c.method.Resource()
	return resource == "" || c.state.known(text(c.request, protoreflect.Name(resource+"_id")))
}

// followsPage reports whether the response is a page after the first.
func (c *intercepted) followsPage(response proto.Message) bool {
	if request, ok := c.request.(interface{ GetPage() int32 }); ok {
		return request.GetPage() > 1
	}
	page, ok := response.(interface{ GetCursorIgnored() bool })
	return ok && text(c.request, "cursor") != "" && !page.GetCursorIgnored()
}

// omitFixtures leaves the resources of the fixtures out of lists that must be complete.
func omitFixtures(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	rows := c.method.Rows()
	if err != nil || rows == nil || c.method.HasRequestField("cursor") {
		return response, err
	}
	list := response.ProtoReflect().Mutable(rows).List()
	kept := 0
	for i := range list.Len() {
		if row := list.Get(i); !c.state.known(text(row.Message().Interface(), "id")) {
			list.Set(kept, row)
			kept++
		}
	}
	list.Truncate(kept)
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

// leak adds the first team's response to the second team's.
func leak(c *intercepted) (proto.Message, error) {
	response, err := c.pass(c.request)
	first, second := c.state.fixtures.Teams[0], c.state.fixtures.Teams[1]
	if err != nil || !reads(c) || team(c) != second.ID {
		return response, err
	}
	otherRequest := with(c.request, "team_id", first.ID)
	for kind, id := range second.Resources {
		fields := otherRequest.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if name := fields.Get(i).Name(); text(otherRequest, name) == id {
				otherRequest = with(otherRequest, name, first.Resources[kind])
			}
		}
	}
	leaked, err := c.pass(otherRequest)
	if err != nil {
		return response, nil //nolint:nilerr // the first team has no such resource
	}
	next := text(response, "next_cursor")
	proto.Merge(response, leaked)
	return with(response, "next_cursor", next), nil
}
