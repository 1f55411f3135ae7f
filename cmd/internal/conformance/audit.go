package conformance

import (
	"fmt"
	"slices"
	"strings"

	auditv1 "opsgate/proto/ops/audit/v1"
)

const listAuditEntries = "audit/ListAuditEntries"

// A prefixCase is a row about `action_prefix`: prefixes that are made from the type of a recorded action.
type prefixCase struct {
	name, sentence string
	prefixes       func(action string) []string
}

func prefixCases() []prefixCase {
	return []prefixCase{
		{name: "prefix", sentence: "ListAuditEntries returns the actions whose type begins with `action_prefix`.",
			prefixes: func(action string) []string { return []string{action[:len(action)/2]} }},
		{name: "prefix-literal", sentence: "`action_prefix` is literal: no character is a wildcard.",
			prefixes: func(action string) []string { // wildcards of SQL, globs and regular expressions
				return []string{"%", "*", "_" + action[1:], action[:1] + "%", action[:1] + ".", "^" + action}
			}},
		{name: "prefix-case", sentence: "`action_prefix` is case-sensitive.",
			prefixes: func(action string) []string { return []string{strings.ToUpper(action[:3])} }},
	}
}

func auditRules() (rules []rule) {
	for _, c := range prefixCases() {
		rules = append(rules, rule{name: c.name, sentence: c.sentence, on: named(listAuditEntries), check: c.check})
	}
	return rules
}

// check compares the list for each prefix with the entries of the whole list that have the prefix.
func (c prefixCase) check(p *probe) {
	action := p.recordedAction()
	for _, prefix := range c.prefixes(action) {
		retryOnChange(func() []string { return entryIDs(p.entries("")) }, func([]string) {
			what := fmt.Sprintf("actions that begin with %q", prefix)
			lacksPrefix := func(e *auditv1.AuditEntry) bool { return !strings.HasPrefix(e.GetActionType(), prefix) }
			want, got := slices.DeleteFunc(p.entries(""), lacksPrefix), p.entries(prefix)
			if i := slices.IndexFunc(got, lacksPrefix); i >= 0 {
				must(expected(what, "%q", got[i].GetActionType()))
			}
			must(sameList("all "+what, entryIDs(want), entryIDs(got[:min(len(got), len(want))])))
		})
	}
}

// recordedAction returns the type of a recent action whose first three characters include a lower-case letter.
func (p *probe) recordedAction() string {
	for _, e := range p.entries("") {
		if action := e.GetActionType(); len(action) > 3 && strings.ToUpper(action[:3]) != action[:3] {
			return action
		}
	}
	must(skip("team %s has no audit entries", p.own.ID))
	return ""
}

func (p *probe) entries(prefix string) []*auditv1.AuditEntry {
	return call[*auditv1.ListAuditEntriesResponse](p, listAuditEntries, fields{"action_prefix": prefix}).GetEntries()
}

func entryIDs(entries []*auditv1.AuditEntry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.GetId()
	}
	return ids
}
