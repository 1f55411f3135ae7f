package conformance

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// everyMethodChecks returns the checks of the rules for all team-scoped methods.
func everyMethodChecks() []Check {
	var checks []Check
	for _, c := range calls() {
		checks = append(checks, c.checks()...)
	}
	return checks
}

func (c call) checks() []Check {
	checks := []Check{
		{
			Name: c.String() + "/well-formed", Writes: c.Writes(), Needs: c.needs(), run: c.wellFormed,
			Sentence: "Required fields are set, ids are UUIDs in lower case, enums have known values, numbers are finite.",
		},
		{
			Name: c.String() + "/team-id", Writes: c.Writes(), Needs: c.needs(), run: c.requiresTeam,
			Sentence: "`team_id` is required: INVALID_ARGUMENT names it if it is not a UUID.",
		},
		{
			Name: c.String() + "/deadline", Writes: c.Writes(), Needs: c.needs(), run: c.keepsDeadline,
			Sentence: deadlineSentence,
		},
	}
	if !c.Writes() && c.ReturnsIDs() {
		checks = append(checks, Check{
			Name: c.String() + "/isolation", Needs: c.needs(), run: c.isolates,
			Sentence: "A method reads data of the team `team_id` only.",
		})
	}
	if c.kind() == "" {
		return checks
	}
	return append(checks,
		Check{
			Name: c.String() + "/unknown-id", Writes: c.Writes(), Needs: c.needs(), run: c.rejectsUnknownID,
			Sentence: "NOT_FOUND if the team has no such " + kindText(c.kind()) + ".",
		},
		Check{
			Name: c.String() + "/foreign-id", Writes: c.Writes(), Needs: c.needs(), run: c.rejectsForeignID,
			Sentence: "NOT_FOUND for the id of another team's resource, with the same message and details as for an unknown id.",
		},
	)
}

func kindText(kind Kind) string { return strings.ReplaceAll(string(kind), "_", " ") }

func (c call) wellFormed(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		response, err := c.invokeForTeam(ctx, s, own)
		if err != nil {
			return err
		}
		return wellFormed(response)
	})
}

// requiresTeam also accepts NOT_FOUND if the request names a resource: a team that does not exist does not have it.
func (c call) requiresTeam(ctx context.Context, s *subject) error {
	id, err := c.ownID(ctx, s, s.teams[0])
	if err != nil {
		return err
	}
	for _, team := range []string{"", "harbour", strings.ToUpper("a" + s.teams[0].ID[1:])} {
		_, err := c.invoke(ctx, s, team, id)
		if c.kind() != "" && status.Code(err) == codes.NotFound {
			continue
		}
		if err := expectViolations(err, "team_id \""+team+"\"", "team_id"); err != nil {
			return err
		}
	}
	return nil
}

func (c call) isolates(ctx context.Context, s *subject) error {
	owners := map[string]string{}
	for _, team := range s.teams {
		response, err := c.invokeForTeam(ctx, s, team)
		if err != nil {
			return err
		}
		for _, id := range messageIDs(response) {
			if owner := owners[id]; owner != "" && owner != team.ID {
				return expected("no id of team "+owner+" in the response for team "+team.ID, "%s in both responses", id)
			}
			owners[id] = team.ID
		}
	}
	return nil
}

func (c call) rejectsUnknownID(ctx context.Context, s *subject) error {
	_, err := c.invoke(ctx, s, s.teams[0].ID, uuid.NewString())
	return expectCode(codes.NotFound, err, "an unknown id")
}

func (c call) rejectsForeignID(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, other Team) error {
		id, err := c.ownID(ctx, s, other)
		if err != nil {
			return err
		}
		_, foreign := c.invoke(ctx, s, own.ID, id)
		if err := expectCode(codes.NotFound, foreign, "the "+kindText(c.kind())+" "+id+" of another team"); err != nil {
			return err
		}
		_, unknown := c.invoke(ctx, s, own.ID, uuid.NewString())
		if err := expectCode(codes.NotFound, unknown, "an unknown id"); err != nil {
			return err
		}
		if !proto.Equal(status.Convert(foreign).Proto(), status.Convert(unknown).Proto()) {
			return expected(fullResultText(unknown)+" for the "+kindText(c.kind())+" "+id+" of another team, as for an unknown id",
				"%s", fullResultText(foreign))
		}
		return nil
	})
}
