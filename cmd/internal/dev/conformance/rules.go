package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"opsgate/proto/contract"
)

// A rule is a row: a sentence of the contract, the methods that it holds for, and the check of one
// of them.
type rule struct {
	name, sentence string
	on             func(m contract.Method) bool
	// writes is set if the check of a method that reads calls a method that writes.
	writes bool
	// check ends with an error if the method breaks the rule.
	check func(p *probe)
}

func named(methods ...string) func(contract.Method) bool {
	return func(m contract.Method) bool { return slices.Contains(methods, m.String()) }
}

// namesResource reports whether requests name a resource.
func namesResource(m contract.Method) bool { return m.Resource() != "" }

// listsOfTeam reports whether the method returns all rows of a team, or the pages of them.
func listsOfTeam(m contract.Method) bool {
	return m.TeamScoped() && !namesResource(m) && m.Rows() != nil
}

// generalRules returns the rules for all methods that act for a team.
func generalRules() []rule {
	return []rule{
		{name: "well-formed", on: contract.Method.TeamScoped, check: returnsWellFormed,
			sentence: "Required fields are set, ids are UUIDs in lower case, enums have known values, numbers are finite, " +
				"times are in the past, " +
				"and optional fields without a value are absent."},
		{name: "team-id", on: contract.Method.TeamScoped, check: requiresTeam,
			sentence: "`team_id` is required: INVALID_ARGUMENT names it if it is not a UUID."},
		{name: "no-rows", on: listsOfTeam, check: listsNoRows,
			sentence: "A list of a team without rows is empty, also if the service does not know the team."},
		{name: "probe", on: contract.Method.IsProbe, check: answersProbe,
			sentence: "A request without fields is answered, and not with UNIMPLEMENTED or a refusal: it proves that an " +
				"address is right."},
		{name: "deadline", on: func(contract.Method) bool { return true }, check: endsAtDeadline,
			sentence: "A call whose deadline has passed ends at once, without side effects."},
		{name: "isolation", check: isolates, sentence: "A method reads data of the team `team_id` only.",
			on: func(m contract.Method) bool { return m.TeamScoped() && !m.Writes() && m.ReturnsIDs() }},
		{name: "unknown-id", on: namesResource, check: refusesUnknownID,
			sentence: "NOT_FOUND if the team has no such resource."},
		{name: "foreign-id", on: namesResource, check: refusesForeignID,
			sentence: "NOT_FOUND for the id of another team's resource, with the same message and details as for an unknown " +
				"id."},
		{name: "the-one-asked-for", on: returnsResource, check: returnsTheOneAskedFor,
			sentence: "The method returns the resource with the given id."},
		{name: "same-as-list", on: returnsResource, check: agreesWithList,
			sentence: "A resource has the same fields in the list of the team and alone."},
	}
}

func kindText(kind string) string { return strings.ReplaceAll(kind, "_", " ") }

func returnsWellFormed(p *probe) {
	rows := 0
	p.forBothTeams(func(p *probe) {
		for response := range p.responses() {
			must(wellFormed(response))
			must(inFuture(response, p.Clock().Add(skew)))
			if p.method.Rows() != nil {
				rows += len(rowsOf(p.method, response))
			}
		}
	})
	needs(rows > 0 || p.method.Rows() == nil, "a row in the list of either team")
}

func requiresTeam(p *probe) {
	for _, team := range []string{"", "harbour", strings.ToUpper("a" + p.own.ID[1:])} {
		p.expectRefusal(fields{"team_id": team})
	}
}

func listsNoRows(p *probe) {
	rows := rowsOf(p.method, p.call(fields{"team_id": uuid.NewString()}))
	require(len(rows) == 0, "no row for a team that does not exist", "%d", len(rows))
}

func answersProbe(p *probe) {
	_, err := p.send(p.ctx, &emptypb.Empty{})
	provesNothing := []codes.Code{codes.Unimplemented, codes.Unavailable, codes.PermissionDenied, codes.Unauthenticated}
	require(!slices.Contains(provesNothing, status.Code(err)), "INVALID_ARGUMENT for a request without fields", "%s",
		resultText(err))
}

func isolates(p *probe) {
	owners := map[string]string{}
	for _, p := range []*probe{p, p.ofOtherTeam()} {
		ids := messageIDs(p.call(nil))
		needs(len(ids) > 0, "a row in the list of team %s", p.own.ID)
		for _, id := range ids {
			owner := owners[id]
			require(owner == "" ||
				owner == p.own.ID, "no id of team "+owner+" in the response for team "+p.own.ID, "%s in both responses", id)
			owners[id] = p.own.ID
		}
	}
}

func refusesUnknownID(p *probe) { _ = p.expectNotFound(uuid.NewString(), "an unknown id") }

// expectNotFound calls the method with the id of no resource of the team, and returns the error.
func (p *probe) expectNotFound(id, what string) error {
	_, err := p.attempt(fields{idField(p.method): id})
	must(expectCode(codes.NotFound, err, what))
	return err
}

func refusesForeignID(p *probe) {
	p.forBothTeams(func(p *probe) {
		id := p.ofOtherTeam().resource()
		what := "the " + kindText(p.kind()) + " " + id + " of another team"
		foreign, unknown := p.expectNotFound(id, what), p.expectNotFound(uuid.NewString(), "an unknown id")
		require(proto.Equal(status.Convert(foreign).Proto(), status.Convert(unknown).Proto()),
			fullResultText(unknown)+" for "+what+", as for an unknown id", "%s", fullResultText(foreign))
	})
}

// resourceField returns the field of responses that holds the resource that requests name, or nil.
func resourceField(m contract.Method) protoreflect.FieldDescriptor {
	return m.NewResponse().ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(m.Resource()))
}

// returnsResource reports whether responses hold the resource that requests name.
func returnsResource(m contract.Method) bool { return resourceField(m) != nil }

func returnsTheOneAskedFor(p *probe) {
	returned := p.call(nil).ProtoReflect().Get(resourceField(p.method)).Message()
	expectID(p.resource(), text(returned, "id"))
}

// agreesWithList compares rows of the list of all resources with the resource that the method
// returns for each.
func agreesWithList(p *probe) {
	const compared = 20
	resource := resourceField(p.method)
	all := slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool {
		return m.Resource() != "" || m.Rows() == nil || m.Rows().Message() != resource.Message()
	})
	list := p.of(all[0].String())
	var rows []protoreflect.Message
	retryOnChange(func() []string {
		rows = rowsOf(list.method, list.call(nil))
		return texts(rows)
	}, func([]string) {
		for _, row := range rows[:min(len(rows), compared)] {
			alone := p.call(fields{idField(p.method): text(row, "id")}).ProtoReflect().Get(resource).Message()
			must(sameMessage("as in the list, "+label(row)+" has", row.Interface(), alone.Interface()))
		}
	})
	needs(len(rows) > 0, "a row in %s of team %s", list.method, p.own.ID)
}

// texts returns a text of each message, to compare states.
func texts[M any](messages []M) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = fmt.Sprint(m)
	}
	return all
}

func expectID(want, got string) { require(want == got, "the id "+want, "%q", got) }

// healthCheck returns the check of the health service for one service.
func healthCheck(service contract.Service) Check {
	return Check{
		Name:     service.Name + "/Health/serving",
		Sentence: "grpc.health.v1.Health reports SERVING for the full name of the service.",
		run: func(p *probe) {
			client := healthv1.NewHealthClient(p.conns[service.Name])
			health, err := client.Check(p.ctx, &healthv1.HealthCheckRequest{Service: service.FullName})
			require(err == nil, "SERVING for "+service.FullName, "%s", resultText(err))
			require(health.GetStatus() == healthv1.HealthCheckResponse_SERVING, "SERVING for "+service.FullName, "%v",
				health.GetStatus())
		},
	}
}

// watchedHealthCheck returns the check of what gateways watch. gRPC's own check of connections
// regards a server without Watch as serving.
func watchedHealthCheck(service contract.Service) Check {
	const want = "SERVING for the name \"\", or UNIMPLEMENTED"
	return Check{
		Name: service.Name + "/Health/watched",
		Sentence: "Watch of grpc.health.v1.Health, if there is one, reports SERVING for the empty name: else a gateway " +
			"sends no call.",
		run: func(p *probe) {
			ctx, cancel := context.WithTimeout(p.ctx, p.Timeout)
			defer cancel()
			stream, err := healthv1.NewHealthClient(p.conns[service.Name]).Watch(ctx, &healthv1.HealthCheckRequest{})
			must(err)
			health, err := stream.Recv()
			if status.Code(err) == codes.Unimplemented {
				return
			}
			require(err == nil, want, "%s", resultText(err))
			require(health.GetStatus() == healthv1.HealthCheckResponse_SERVING, want, "%v", health.GetStatus())
		},
	}
}
