package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"opsgate/authn"
)

func FuzzBody(f *testing.F) {
	const fields = `"title":"t","status":"resolved","impact":"none","message":"m"`
	for _, s := range []string{
		"", "{}", "[]", "nul", "\xff", "{" + fields + "}", "{" + fields + "}x", "{" + fields + `,"statusPageId":null,"componentIds":null}`,
		`{"title":"x","title":"y"}`, `{"a":{"b":[1,2,{"c":null}]},"componentIds":[null]}`, `{"title":"\ud800 \\ufffd"}`,
		`{"title":"\ud83d\ude00\ufffd` + "\ufffd" + `","t\u0069tle":1}`, "{\"message\":\" \u2003\",\"title\":\"a\u0085\"}",
		"{" + fields + `,"statusPageId":"` + strings.ToUpper(someID) + `","componentIds":["` + someID + `","` + strings.ToUpper(someID) + `"]}`,
		`{"status":"resolved","message":"m","notifySubscribers":false}`, `{"status":"resolved","message":"m","notifySubscribers":null}`,
	} {
		f.Add([]byte(s))
	}
	gin.SetMode(gin.ReleaseMode)
	r := &Request{gateway: &Gateway{maxBodyBytes: DefaultMaxBodyBytes}, principal: &authn.Principal{}}
	f.Fuzz(func(t *testing.T, data []byte) {
		r.gin, _ = gin.CreateTestContext(httptest.NewRecorder())
		r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents", bytes.NewReader(data))
		req, err := decodeCreateIncident(r)
		checkBody(t, data, err, incidentBody(), map[string]any{
			"title": req.Title, "message": req.Message, "status": int(req.Status), "impact": int(req.Impact),
			"statusPageId": req.GetStatusPageId(), "componentIds": req.ComponentIds,
		})

		r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents/x/updates", bytes.NewReader(data))
		update, err := decodeIncidentUpdate(r, someID)
		checkBody(t, data, err, updateBody(), map[string]any{
			"message": update.Message, "status": int(update.Status), "notifySubscribers": update.NotifySubscribers,
		})
	})
}

// A fieldRule says what the value of a field may be, and what it then comes to.
type fieldRule struct {
	required bool
	absent   any // what it comes to where it is absent
	read     func(raw json.RawMessage) (value any, ok bool)
}

func incidentBody() map[string]fieldRule {
	return map[string]fieldRule{
		"title": textRule(255), "message": textRule(10_000), "status": statusRule(), "impact": wordRule("none", "minor", "major", "critical"),
		"statusPageId": {absent: "", read: orNull("", readID)}, "componentIds": {absent: []string(nil), read: orNull([]string(nil), readIDs)},
	}
}

func updateBody() map[string]fieldRule {
	return map[string]fieldRule{
		"status": statusRule(), "message": textRule(10_000),
		"notifySubscribers": {absent: true, read: func(raw json.RawMessage) (any, bool) {
			return string(raw) == "true", string(raw) == "true" || string(raw) == "false"
		}},
	}
}

// checkBody holds what was decoded of a body, or the error, against what encoding/json and the rules make of it.
func checkBody(t *testing.T, data []byte, err error, rules map[string]fieldRule, got map[string]any) {
	t.Helper()
	want, wrong := readBodyAgain(data, rules)
	if err == nil {
		if len(wrong) > 0 {
			t.Fatalf("%q is accepted; these are wrong: %v", data, wrong)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", data, diff)
		}
		return
	}
	problem, ok := errors.AsType[*Problem](err)
	if ok && len(data) > DefaultMaxBodyBytes && problem.Status == http.StatusRequestEntityTooLarge {
		return
	}
	if !ok || problem.Status != http.StatusUnprocessableEntity || !slices.Equal(sortedKeys(problem.Details), wrong) {
		t.Fatalf("%q: %v; these are wrong: %v", data, err, wrong)
	}
	if at := regexp.MustCompile(`at byte (\d+)`).FindStringSubmatch(problem.Details["body"]); at != nil {
		if n, _ := strconv.Atoi(at[1]); n < 1 || n > len(data)+1 {
			t.Errorf("%q: %s", data, problem.Details["body"])
		}
	}
}

// readBodyAgain returns what the fields come to, or the names of all that is wrong.
func readBodyAgain(data []byte, rules map[string]fieldRule) (values map[string]any, wrong []string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') || !json.Valid(data) || !utf8.Valid(data) {
		return nil, []string{"body"}
	}
	values = map[string]any{}
	bad, given := map[string]bool{}, map[string]bool{}
	for decoder.More() {
		name, _ := decoder.Token()
		var raw json.RawMessage
		_ = decoder.Decode(&raw) // it is valid
		field := name.(string)
		rule, known := rules[field]
		if !known || given[field] {
			bad[field] = true
			continue
		}
		given[field] = true
		var ok bool
		if values[field], ok = rule.read(raw); !ok {
			bad[field] = true
		}
	}
	for field, rule := range rules {
		if !given[field] {
			values[field] = rule.absent
			bad[field] = bad[field] || rule.required
		}
	}
	maps.DeleteFunc(bad, func(_ string, is bool) bool { return !is })
	return values, slices.Sorted(maps.Keys(bad))
}

// textRule is that of a text for people.
func textRule(most int) fieldRule {
	return fieldRule{required: true, read: func(raw json.RawMessage) (any, bool) {
		text, ok := readText(raw)
		text = strings.TrimSpace(text)
		odd := strings.ContainsFunc(text, func(c rune) bool { return unicode.Is(unicode.Cc, c) && !strings.ContainsRune("\n\r\t", c) })
		n := len([]rune(text))
		return text, ok && n >= 1 && n <= most && !odd && !hasHalfPair(raw)
	}}
}

func statusRule() fieldRule { return wordRule("investigating", "identified", "monitoring", "resolved") }

func wordRule(words ...string) fieldRule {
	return fieldRule{required: true, read: func(raw json.RawMessage) (any, bool) {
		text, ok := readText(raw)
		i := slices.Index(words, text)
		return i + 1, ok && i >= 0
	}}
}

func orNull(none any, read func(json.RawMessage) (any, bool)) func(json.RawMessage) (any, bool) {
	return func(raw json.RawMessage) (any, bool) {
		if string(raw) == "null" {
			return none, true
		}
		return read(raw)
	}
}

func readText(raw json.RawMessage) (string, bool) {
	var text *string
	err := json.Unmarshal(raw, &text)
	if err != nil || text == nil {
		return "", false
	}
	return *text, true
}

func readID(raw json.RawMessage) (any, bool) {
	text, ok := readText(raw)
	return strings.ToLower(text), ok && uuidForm.MatchString(text)
}

func readIDs(raw json.RawMessage) (any, bool) {
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil || len(elements) > 100 {
		return nil, false
	}
	var ids []string
	for _, element := range elements {
		id, ok := readID(element)
		if !ok {
			return nil, false
		}
		if text, _ := id.(string); !slices.Contains(ids, text) {
			ids = append(ids, text)
		}
	}
	return ids, true
}

// hasHalfPair says whether a string literal has an escape of half of a surrogate pair.
func hasHalfPair(literal []byte) bool {
	escape := regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\.|[^\\]+`)
	var last rune // high half of a pair
	for _, part := range escape.FindAll(literal, -1) {
		var unit rune
		if len(part) == 6 && part[1] == 'u' {
			n, _ := strconv.ParseUint(string(part[2:]), 16, 16)
			unit = rune(n)
		}
		switch pair := utf16.DecodeRune(last, unit); {
		case last != 0 && pair == unicode.ReplacementChar:
			return true
		case last != 0:
			last = 0
		case utf16.IsSurrogate(unit) && unit >= 0xdc00:
			return true
		case utf16.IsSurrogate(unit):
			last = unit
		}
	}
	return last != 0
}
