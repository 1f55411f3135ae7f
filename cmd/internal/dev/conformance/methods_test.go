package conformance_test

import (
	"path"
	"slices"
	"testing"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/proto/contract"
)

// generalRules hold for every team-scoped method, and need no code of the method.
func generalRules() []string {
	return []string{"well-formed", "team-id", "deadline", "isolation", "unknown-id", "foreign-id"}
}

func TestEveryMethodOfTheContractIsChecked(t *testing.T) {
	rules := map[string][]string{} // by method
	for _, c := range conformance.Checks() {
		rules[c.Method()] = append(rules[c.Method()], c.Rule())
	}
	for _, m := range contract.Methods() {
		checked := rules[m.String()]
		if !slices.Contains(checked, "deadline") {
			t.Errorf("%s: no check of deadlines", m)
		}
		if m.Rows() != nil && !slices.Contains(checked, "order") {
			t.Errorf("%s: no check of the order of %s: add a row to order.go", m, m.Rows().Name())
		}
		if m.HasRequestField("idempotency_key") && !slices.Contains(checked, "idempotent-replay") {
			t.Errorf("%s: no check of idempotency keys: its field idempotency_key has no rule", m)
		}
		if !slices.ContainsFunc(checked, func(rule string) bool { return !slices.Contains(generalRules(), rule) }) {
			t.Errorf("%s: no check of a rule of its own: add one to %s.go", m, m.Service())
		}
		delete(rules, m.String())
	}
	for method := range rules {
		if path.Base(method) != "Health" {
			t.Errorf("%s is checked, and the contract has no such method", method)
		}
	}
}
