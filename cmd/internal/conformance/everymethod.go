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
	if c.of() == "" {
		return checks
	}
	return append(checks,
		Check{
			Name: c.String() + "/unknown-id", Writes: c.Writes(), Needs: c.needs(), run: c.missesUnknown,
			Sentence: "NOT_FOUND if the team has no such " + words(c.of()) + ".",
		},
		Check{
			Name: c.String() + "/foreign-id", Writes: c.Writes(), Needs: c.needs(), run: c.missesForeign,
			Sentence: "NOT_FOUND for the id of another team's resource, with the same message and details as for an unknown id.",
		},
	)
}

func words(of Thing) string { return strings.ReplaceAll(string(of), "_", " ") }

func (c call) wellFormed(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, _ Team) error {
		answer, err := c.answer(ctx, s, own)
		if err != nil {
			return err
		}
		return wellFormed(answer)
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
		if c.of() != "" && status.Code(err) == codes.NotFound {
			continue
		}
		if err := names(err, "team_id \""+team+"\"", "team_id"); err != nil {
			return err
		}
	}
	return nil
}

func (c call) isolates(ctx context.Context, s *subject) error {
	owners := map[string]string{}
	for _, team := range s.teams {
		answer, err := c.answer(ctx, s, team)
		if err != nil {
			return err
		}
		for _, id := range identities(answer) {
			if owner := owners[id]; owner != "" && owner != team.ID {
				return expected("no id of team "+owner+" in the response for team "+team.ID, "%s in both responses", id)
			}
			owners[id] = team.ID
		}
	}
	return nil
}

func (c call) missesUnknown(ctx context.Context, s *subject) error {
	_, err := c.invoke(ctx, s, s.teams[0].ID, uuid.NewString())
	return endsWith(codes.NotFound, err, "an unknown id")
}

func (c call) missesForeign(ctx context.Context, s *subject) error {
	return forBothTeams(s, func(own, other Team) error {
		id, err := c.ownID(ctx, s, other)
		if err != nil {
			return err
		}
		_, foreign := c.invoke(ctx, s, own.ID, id)
		if err := endsWith(codes.NotFound, foreign, "the "+words(c.of())+" "+id+" of another team"); err != nil {
			return err
		}
		_, unknown := c.invoke(ctx, s, own.ID, uuid.NewString())
		if err := endsWith(codes.NotFound, unknown, "an unknown id"); err != nil {
			return err
		}
		if !proto.Equal(status.Convert(foreign).Proto(), status.Convert(unknown).Proto()) {
			return expected(endedInFull(unknown)+" for the "+words(c.of())+" "+id+" of another team, as for an unknown id",
				"%s", endedInFull(foreign))
		}
		return nil
	})
}
