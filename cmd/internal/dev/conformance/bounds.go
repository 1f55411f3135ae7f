package conformance

import (
	"crypto/sha256"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/proto/contract"
)

// Bounds of the fields of writes.
const (
	maxTitle   = 255
	maxMessage = 10_000
	maxKey     = 255
)

// unknownValue is a number that no enum has.
const unknownValue = 99

// A bound is a row about one field of requests: INVALID_ARGUMENT names the field for each of the
// values.
type bound struct {
	field protoreflect.Name
	// rule is the name of the rule; "" means the name of the field, with hyphens.
	rule string
	// valid is the end of the sentence, about the valid or the invalid values.
	valid string
	// on selects methods whose requests have the field; nil means all.
	on func(m contract.Method) bool
	// values may be functions that return the value for a run.
	values []any
}

func bounds() []bound {
	writes := contract.Method.Writes
	return []bound{
		{field: "page", valid: " if it is out of bounds: from 1, and page × page_size below 2^31",
			values: []any{0, -1, math.MaxInt32}},
		{field: "page_size", valid: " if it is not 1 to 100", values: []any{0, -1, contract.MaxPageSize + 1}},
		{field: "range", rule: "range-known", valid: " if it is unspecified or unknown", values: []any{0, unknownValue}},
		{field: "since", rule: "since-required", valid: " if it is absent", values: []any{nil}},
		{field: "token_sha256", rule: "hash-length", valid: " if it is not 32 bytes",
			values: []any{[]byte{}, make([]byte, sha256.Size-1), make([]byte, sha256.Size+1)}},
		{field: "title", valid: ", which has 1 to 255 characters: code points",
			values: []any{"", strings.Repeat("x", maxTitle+1), strings.Repeat("e\u0301", maxTitle/2+1)}},
		{field: "status", valid: " if it is not set or unknown", values: []any{0, unknownValue}},
		{field: "impact", valid: " if it is not set or unknown", values: []any{0, unknownValue}},
		{field: "message", valid: ", which has 1 to 10,000 characters", values: []any{"", strings.Repeat("x", maxMessage+1)}},
		{field: "idempotency_key", valid: ", which is empty or has 1 to 255 visible ASCII characters",
			values: []any{"a key", "schlüssel", strings.Repeat("k", maxKey+1)}},
		{field: "status_page_id", rule: "unknown-page", valid: " if the team has no such page", on: writes,
			values: []any{uuid.NewString()}},
		{field: "status_page_id", rule: "foreign-page", valid: " if the page belongs to another team", on: writes,
			values: []any{func(p *probe) any { return p.ofOtherTeam().pageID() }}},
		{field: "component_ids", rule: "unknown-component", valid: " if the team has no such component",
			values: []any{uuid.NewString()}},
		{field: "component_ids", rule: "foreign-component", valid: " if one belongs to another team",
			values: []any{func(p *probe) any { return p.ofOtherTeam().component() }}},
		{field: "component_ids", rule: "many-components", valid: " if there are more than 100",
			values: []any{newIDs(contract.MaxPageSize + 1)}},
	}
}

func newIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	return ids
}

func boundRules() (rules []rule) {
	for _, b := range bounds() {
		name := b.rule
		if name == "" {
			name = strings.ReplaceAll(string(b.field), "_", "-")
		}
		rules = append(rules, rule{
			name: name, sentence: "INVALID_ARGUMENT naming `" + string(b.field) + "`" + b.valid + ".", check: b.isKept,
			on: func(m contract.Method) bool { return m.HasRequestField(b.field) && (b.on == nil || b.on(m)) },
		})
	}
	rules = append(rules, rule{
		name: "invalid-first", sentence: "INVALID_ARGUMENT if a field is invalid, also if the team has no such resource.",
		on: func(m contract.Method) bool { return namesResource(m) && firstBound(m) != nil }, check: refusesFieldsFirst,
	})
	const sentence = "INVALID_ARGUMENT carries a violation for each invalid field."
	for method, invalid := range map[string]fields{
		listServerCommands: {"page": 0, "page_size": 0},
		createIncident:     {"title": "", "status": 0, "impact": 0, "message": ""},
		addIncidentUpdate:  {"status": 0, "message": ""},
	} {
		rules = append(rules, rule{name: "all-violations", sentence: sentence, on: named(method), check: func(p *probe) {
			p.expectRefusal(invalid)
		}})
	}
	return rules
}

// firstBound returns a bound of a field of the method's requests other than the id of the resource,
// or nil.
func firstBound(m contract.Method) *bound {
	all := bounds()
	at := slices.IndexFunc(all, func(b bound) bool { return m.HasRequestField(b.field) && b.field != idField(m) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

func refusesFieldsFirst(p *probe) {
	b := firstBound(p.method)
	_, err := p.attempt(fields{b.field: b.values[0], idField(p.method): uuid.NewString()})
	must(expectViolations(err, valueText(b.field, b.values[0])+" and an unknown id", string(b.field)))
}

func (b bound) isKept(p *probe) {
	for _, value := range b.values {
		if choose, ok := value.(func(*probe) any); ok {
			value = choose(p)
		}
		p.expectRefusal(fields{b.field: value})
	}
}

// expectRefusal checks that INVALID_ARGUMENT names each of the fields with invalid values.
func (p *probe) expectRefusal(invalid fields) {
	_, err := p.attempt(invalid)
	var names, texts []string
	for _, name := range slices.Sorted(maps.Keys(invalid)) {
		names, texts = append(names, string(name)), append(texts, valueText(name, invalid[name]))
	}
	must(expectViolations(err, strings.Join(texts, ", "), names...))
}
