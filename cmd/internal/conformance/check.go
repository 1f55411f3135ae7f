package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"opsgate/proto/contract"
)

// A Check is a sentence of the contract, and a way to see whether a service keeps it.
type Check struct {
	// Name is the service, the method and the rule, as `incident/CreateIncident/idempotent-replay`. It does not change.
	Name string
	// Sentence is what the contract says.
	Sentence string
	// Writes is set where a method that writes is called.
	Writes bool
	// Needs are the things that the fixtures have to name of both teams.
	Needs []Thing

	// look returns nil if the service keeps the sentence, a *breach if it does not, and *notApplicable if that cannot be seen. Any
	// other error is that of a call which had to succeed.
	look func(ctx context.Context, s *subject) error
}

// Service returns the service that the check is of.
func (c Check) Service() string {
	service, _, _ := strings.Cut(c.Name, "/")
	return service
}

// Method returns the service and the method that the check is of.
func (c Check) Method() string { return c.Name[:strings.LastIndexByte(c.Name, '/')] }

// Rule returns the last part of the name.
func (c Check) Rule() string { return c.Name[strings.LastIndexByte(c.Name, '/')+1:] }

// Checks returns all checks, by service and method.
func Checks() []Check {
	var all []Check
	for _, table := range [][]Check{
		healthChecks(), everyMethodChecks(), fleetChecks(), monitoringChecks(), incidentChecks(), statusPageChecks(),
		listChecks(), auditChecks(), createChecks(), createRefusals(), updateChecks(), idempotencyChecks(), identityChecks(),
	} {
		all = append(all, table...)
	}
	position := map[string]int{}
	for i, service := range contract.Services() {
		position[service.Name] = i
	}
	slices.SortStableFunc(all, func(a, b Check) int {
		return cmp.Or(position[a.Service()]-position[b.Service()], strings.Compare(a.Method(), b.Method()))
	})
	return all
}

// Select returns the checks whose names match the pattern, in which a `*` stands for anything. There is an error if there are none.
func Select(pattern string) ([]Check, error) {
	expression, err := regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	if err != nil {
		return nil, fmt.Errorf("read the pattern %q: %w", pattern, err)
	}
	selected := slices.DeleteFunc(Checks(), func(c Check) bool { return !expression.MatchString(c.Name) })
	if len(selected) == 0 {
		return nil, fmt.Errorf("no check is called %q", pattern)
	}
	return selected, nil
}

// A breach is what a service does against the contract.
type breach struct{ want, got string }

func (b *breach) Error() string { return "expected " + b.want + ", got " + b.got }

func expected(want, format string, args ...any) error {
	return &breach{want: want, got: fmt.Sprintf(format, args...)}
}

// A notApplicable is why a check cannot be made.
type notApplicable struct{ why string }

func (n *notApplicable) Error() string { return n.why }

func skip(format string, args ...any) error { return &notApplicable{why: fmt.Sprintf(format, args...)} }

// bothWays looks from one team at the other and from the other at the one.
func bothWays(s *subject, look func(own, other Team) error) error {
	return errors.Join(look(s.teams[0], s.teams[1]), look(s.teams[1], s.teams[0]))
}
