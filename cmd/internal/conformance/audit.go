package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
)

const listAuditEntries = "audit/ListAuditEntries"

func auditChecks() []Check {
	return []Check{
		{
			Name: listAuditEntries + "/prefix", run: prefixSelects,
			Sentence: "ListAuditEntries returns the actions whose type begins with `action_prefix`.",
		},
		{
			Name: listAuditEntries + "/prefix-literal", run: prefixIsLiteral,
			Sentence: "`action_prefix` is literal: no character is a wildcard.",
		},
		{
			Name: listAuditEntries + "/prefix-case", run: prefixIsCaseSensitive,
			Sentence: "`action_prefix` is case-sensitive.",
		},
	}
}

func (s *subject) entries(ctx context.Context, prefix string) ([]*auditv1.AuditEntry, error) {
	response, err := s.audit.ListAuditEntries(ctx,
		&auditv1.ListAuditEntriesRequest{TeamId: s.teams[0].ID, ActionPrefix: prefix, PageSize: contract.MaxPageSize})
	return response.GetEntries(), err
}

func entryIDs(entries []*auditv1.AuditEntry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.GetId()
	}
	return ids
}

// findAction returns the type of a recent action whose first three characters include a lower-case letter.
func (s *subject) findAction(ctx context.Context) (string, error) {
	entries, err := s.entries(ctx, "")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if action := e.GetActionType(); len(action) > 3 && strings.ToUpper(action[:3]) != action[:3] {
			return action, nil
		}
	}
	return "", skip("team %s has no audit entries", s.teams[0].ID)
}

// prefixSelects compares the list for a prefix with the entries of the whole list that have the prefix.
func prefixSelects(ctx context.Context, s *subject) error {
	return retryOnChange(ctx, func() ([]string, error) {
		entries, err := s.entries(ctx, "")
		return entryIDs(entries), err
	}, func([]string) error {
		action, err := s.findAction(ctx)
		if err != nil {
			return err
		}
		prefix := action[:len(action)/2]
		all, err := s.entries(ctx, "")
		if err != nil {
			return err
		}
		want := slices.DeleteFunc(all, func(e *auditv1.AuditEntry) bool { return !strings.HasPrefix(e.GetActionType(), prefix) })
		got, err := s.entries(ctx, prefix)
		if err != nil {
			return err
		}
		if other := withoutPrefix(got, prefix); other != "" {
			return expected(fmt.Sprintf("actions that begin with %q", prefix), "%q", other)
		}
		wanted, found := entryIDs(want), entryIDs(got)
		if len(found) < len(wanted) || !slices.Equal(found[:len(wanted)], wanted) {
			return differentList(fmt.Sprintf("all actions that begin with %q", prefix), wanted, found)
		}
		return nil
	})
}

// prefixIsLiteral replaces characters of a known action by wildcards of SQL, globs and regular expressions.
func prefixIsLiteral(ctx context.Context, s *subject) error {
	action, err := s.findAction(ctx)
	if err != nil {
		return err
	}
	for _, prefix := range []string{"%", "*", "_" + action[1:], action[:1] + "%", action[:1] + ".", "^" + action} {
		got, err := s.entries(ctx, prefix)
		if err != nil {
			return err
		}
		if other := withoutPrefix(got, prefix); other != "" {
			return expected(fmt.Sprintf("actions that begin with %q", prefix), "%q", other)
		}
	}
	return nil
}

func prefixIsCaseSensitive(ctx context.Context, s *subject) error {
	action, err := s.findAction(ctx)
	if err != nil {
		return err
	}
	prefix := strings.ToUpper(action[:3])
	got, err := s.entries(ctx, prefix)
	if err != nil {
		return err
	}
	if other := withoutPrefix(got, prefix); other != "" {
		return expected(fmt.Sprintf("actions that begin with %q", prefix), "%q", other)
	}
	return nil
}

// withoutPrefix returns the type of the first entry without the prefix, or "".
func withoutPrefix(entries []*auditv1.AuditEntry, prefix string) string {
	for _, e := range entries {
		if !strings.HasPrefix(e.GetActionType(), prefix) {
			return e.GetActionType()
		}
	}
	return ""
}
