package conformance

import (
	"fmt"
	"slices"
	"strings"

	auditv1 "opsgate/proto/ops/audit/v1"
)

const listAuditEntries = "audit/ListAuditEntries"

// A prefixCase is a row about `action_prefix`: prefixes that are made from the type of a recorded
// action.
type prefixCase struct {
	name, sentence string
	prefixes       func(action string) []string
}

func prefixCases() []prefixCase {
	return []prefixCase{
		{name: "prefix", sentence: "ListAuditEntries returns the actions whose type begins with `action_prefix`.",
			prefixes: func(action string) (all []string) {
				for i := range len(action) { // a prefix may end anywhere, also inside a word
					all = append(all, action[:i+1])
				}
				return all
			}},
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
	return append(rules, rule{
		name: "prefix-paged", on: named(listAuditEntries), writes: true, check: prefixAppliesBeforePaging,
		sentence: "The pages are those of the entries that have the prefix.",
	})
}

// prefixAppliesBeforePaging reads a page of one entry with a prefix that the newest entry does not
// have.
func prefixAppliesBeforePaging(p *probe) {
	p.update(p.create(nil).GetId(), nil)
	retryOnChange(func() []string { return idsOf(p.entries("")) }, func([]string) {
		all := p.entries("")
		require(len(all) > 0, "audit entries", "none")
		other := slices.IndexFunc(all,
			func(e *auditv1.AuditEntry) bool { return !strings.HasPrefix(e.GetActionType(), all[0].GetActionType()) })
		needs(other >= 0, "audit entries of team %s with two types of actions", p.own.ID)
		prefix := all[other].GetActionType()
		first := call[*auditv1.ListAuditEntriesResponse](p, listAuditEntries, fields{"action_prefix": prefix, "page_size": 1})
		ids := idsOf(first.GetEntries())
		must(sameList(fmt.Sprintf("on the first page of 1, of actions that begin with %q", prefix),
			[]string{all[other].GetId()}, ids[:min(1, len(ids))]))
	})
}

// check compares the list for each prefix with the entries of the whole list that have the prefix.
func (c prefixCase) check(p *probe) {
	action := p.recordedAction()
	for _, prefix := range c.prefixes(action) {
		retryOnChange(func() []string { return idsOf(p.entries("")) }, func([]string) {
			what := fmt.Sprintf("actions that begin with %q", prefix)
			lacksPrefix := func(e *auditv1.AuditEntry) bool { return !strings.HasPrefix(e.GetActionType(), prefix) }
			want, got := slices.DeleteFunc(p.entries(""), lacksPrefix), p.entries(prefix)
			if i := slices.IndexFunc(got, lacksPrefix); i >= 0 {
				must(expected(what, "%q", got[i].GetActionType()))
			}
			must(sameList("all "+what, idsOf(want), idsOf(got[:min(len(got), len(want))])))
		})
	}
}

// recordedAction returns the type of a recent action whose first three characters include a
// lower-case letter.
func (p *probe) recordedAction() string {
	for _, e := range p.entries("") {
		if action := e.GetActionType(); len(action) > 3 && strings.ToUpper(action[:3]) != action[:3] {
			return action
		}
	}
	must(lacks("audit entries of team %s", p.own.ID))
	return ""
}

func (p *probe) entries(prefix string) []*auditv1.AuditEntry {
	return call[*auditv1.ListAuditEntriesResponse](p, listAuditEntries, fields{"action_prefix": prefix}).GetEntries()
}
