package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"opsgate/proto/contract"
)

// A Check is a sentence of the contract, and a function that checks whether a service keeps it.
type Check struct {
	// Name is the service, the method and the rule, such as
	// `incident/CreateIncident/idempotent-replay`. It is stable.
	Name string
	// Sentence is the sentence of the contract.
	Sentence string
	// Writes is set if the check calls a method that writes.
	Writes bool

	method contract.Method
	// run ends with a *breach if the service breaks the sentence, and with an *undecided if the
	// check is impossible. Any other error is the error of a call that had to succeed.
	run func(p *probe)
}

// Service returns the name of the service.
func (c Check) Service() string {
	service, _, _ := strings.Cut(c.Name, "/")
	return service
}

// Method returns the names of the service and the method.
func (c Check) Method() string { return c.Name[:strings.LastIndexByte(c.Name, '/')] }

// Rule returns the last part of the name.
func (c Check) Rule() string { return c.Name[strings.LastIndexByte(c.Name, '/')+1:] }

// Checks returns all checks, ordered by service and method.
func Checks() []Check {
	var all []Check
	position := map[string]int{}
	for i, service := range contract.Services() {
		position[service.Name] = i
		all = append(all, healthCheck(service), watchedHealthCheck(service))
	}
	rules := slices.Concat(generalRules(), listRules(), pagingRules(), boundRules(), keyRules(), fleetRules(),
		monitoringRules(),
		incidentRules(), auditRules(), identityRules())
	for _, m := range contract.Methods() {
		for _, r := range rules {
			if r.on(m) {
				all = append(all, r.checkOf(m))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Check) int {
		return cmp.Or(position[a.Service()]-position[b.Service()], strings.Compare(a.Method(), b.Method()))
	})
	return all
}

// checkOf returns the check of the rule for one method.
func (r rule) checkOf(m contract.Method) Check {
	return Check{Name: m.String() + "/" + r.name, Sentence: r.sentence, Writes: r.writes ||
		m.Writes(), method: m, run: r.check}
}

// Select returns the checks whose names match the pattern, in which a `*` stands for any text. It
// returns an error if no name matches.
func Select(pattern string) ([]Check, error) {
	expression, err := regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	if err != nil {
		return nil, fmt.Errorf("parse the pattern %q: %w", pattern, err)
	}
	selected := slices.DeleteFunc(Checks(), func(c Check) bool { return !expression.MatchString(c.Name) })
	if len(selected) == 0 {
		return nil, fmt.Errorf("no check is called %q", pattern)
	}
	return selected, nil
}

// A breach is the difference between the contract and a service.
type breach struct{ want, got string }

func (b *breach) Error() string { return "expected " + b.want + ", got " + b.got }

func expected(want, format string, args ...any) error {
	return &breach{want: want, got: fmt.Sprintf(format, args...)}
}

// An undecided ends a check that neither passes nor fails: Skip or Unproved, with the reason.
type undecided struct {
	outcome Outcome
	reason  string
}

func (u *undecided) Error() string { return u.reason }

// skip ends a check that was not asked for, or is about something optional.
func skip(format string, args ...any) error {
	return &undecided{outcome: Skip, reason: fmt.Sprintf(format, args...)}
}

// lacks ends a check that has no evidence. The text names the data that would prove the sentence.
func lacks(format string, args ...any) error {
	return &undecided{outcome: Unproved, reason: "needs " + fmt.Sprintf(format, args...)}
}

// breachesOf returns the breaches of a check's error. The error of a call that had to succeed is a
// breach too.
func breachesOf(err error) []Breach {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []Breach
		for _, each := range joined.Unwrap() {
			list = append(list, breachesOf(each)...)
		}
		return list
	}
	if _, ok := errors.AsType[*undecided](err); ok || err == nil {
		return nil
	}
	if b, ok := errors.AsType[*breach](err); ok {
		return []Breach{{Expected: b.want, Got: b.got}}
	}
	return []Breach{{Expected: "OK", Got: resultText(err)}}
}
