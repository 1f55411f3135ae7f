package gateway

import (
	"bytes"
	"encoding/json"
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

	"opsgate/internal/testkit"
)

func FuzzBody(f *testing.F) {
	const fields = `"title":"t","status":"resolved","impact":"none","message":"m"`
	for _, s := range []string{
		"", "{}", "[]", "nul", "\xff", "{" + fields + "}", "{" + fields + "}x", "{" + fields + `,"statusPageId":null,"componentIds":null}`,
		`{"title":"x","title":"y"}`, `{"a":{"b":[1,2,{"c":null}]},"componentIds":[null]}`, `{"title":"\ud800 \\ufffd"}`, `{"title":"ud800"}`,
		`{"title":"\ud83d\ude00\ufffd` + "\ufffd" + `","t\u0069tle":1}`, "{\"message\":\" \u2003\",\"title\":\"a\u0085\"}",
		"{" + fields + `,"statusPageId":"` + strings.ToUpper(someID) + `","componentIds":["` + someID + `","` + strings.ToUpper(someID) + `"]}`,
		`{"status":"resolved","message":"m","notifySubscribers":false}`, `{"status":"resolved","message":"m","notifySubscribers":null}`,
		"{\"title\":\"\u200b\u00ad\u3164\",\"message\":\"\u2800\ufe0f\U000e0020\"}", `{"title":"\u202ex\u2066","message":"\u2069\u061c"}`,
		"{" + fields + distinctNames(400) + "}", "{" + fields + distinctNames(9000) + "}", `{"title":1` + distinctNames(9000) + `,"message":1}`,
		"{" + fields + `,"componentIds":[` + strings.Repeat("0,", 994) + `0],"x":1}`, "{" + fields + `,"componentIds":[` + strings.Repeat("0,", 995) + "0]}",
		`{"title":"` + strings.Repeat(`\n`, 5000) + "x" + strings.Repeat("\u2003", 1682) + `"}`, `{"title":"` + strings.Repeat(`\n`, 9000) + `"}`,
		`{"title":"` + strings.Repeat(`\u0061`, 255) + strings.Repeat(` `, 3000) + `","message":"` + strings.Repeat(`\ud800`, 600) + strings.Repeat(`\t`, 60_000) + `"}`, "{" + fields + strings.Repeat(`,"title":0`, 30) + "}",
		`{"` + strings.Repeat("long", 20) + `":1,"` + strings.Repeat(`\u0000`, 70) + `":2,"` + strings.Repeat("long", 30) + `":3}`,
		`{"a":` + strings.Repeat(`[{"b":`, 32) + "0" + strings.Repeat("}]", 32) + "}", `{"a":` + strings.Repeat(`[`, 63) + strings.Repeat("]", 63) + "}",
		`{"a":[-0.5e+7,1E5,0,-1,01,1.,.5,+1,1e,true,false,null,nul,tru]}`, `{"a" :[ ] ,"b":{ } , "c":"\/\b\f\n\r\t\"\\"}`,
		`{"` + strings.Repeat("äöü😀", 16) + `more":1,"` + strings.Repeat("äöü😀", 16) + `":2}`, `{"message":"a\u2066b\u2069"}`, "\ufeff{}", `"x"`, "null",
		"{" + strings.Repeat(`"x":0,`, 1000) + `"title":"t","status":"open"}`, `{"title":"t","x":[` + strings.Repeat(`{"a":{}},`, 500) + "0]}",
		"{" + fields + `,"componentIds":[` + strings.Repeat(`"`+someID+`",`, 100) + `"` + someID + `"]}`, "{" + fields + `,"\u0074itle":"t","Title":"t"}`,
		`{"title":" \n ","status":"Resolved","impact":null,"message":"` + strings.Repeat("x", 10_001) + `","statusPageId":1,"componentIds":{}}`,
		`{"title":"` + strings.Repeat("ä", 256) + `","message":"a\u0007b"}`, `{"title":"a\u0000b","message":"a\ud800b"}`,
		`{"status":"resolved","message":"m","notifySubscriber":false}`, `{"status":"resolved","message":"m","notifySubscribers":"false"}`,
		"{" + fields + `,"statusPageId":"` + strings.ReplaceAll(someID, "-", "") + `","componentIds":["` + someID + `","x"]}`,
		`{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `{"a":[1,]}`, `{"a":[1}`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":1\x00}", "\x00{}",
	} {
		f.Add([]byte(s))
	}
	gin.SetMode(gin.ReleaseMode)
	r := requestWithBody(defaultMaxBodyBytes)
	create, post := rowOf("v1CreateIncident"), rowOf("v1AddIncidentUpdate")
	f.Fuzz(func(t *testing.T, data []byte) {
		r.route = create
		r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents", bytes.NewReader(data))
		req, err := decodeCreateIncident(r)
		checkBody(t, data, err, incidentBody(), map[string]any{
			"title": req.Title, "message": req.Message, "status": int(req.Status), "impact": int(req.Impact),
			"statusPageId": req.GetStatusPageId(), "componentIds": req.ComponentIds,
		})

		r.gin.Request = httptest.NewRequest(http.MethodPost, "/v1/incidents/x/updates", bytes.NewReader(data))
		r.route = post
		update, err := decodeIncidentUpdate(r)
		checkBody(t, data, err, updateBody(), map[string]any{
			"message": update.Message, "status": int(update.Status), "notifySubscribers": update.NotifySubscribers,
		})
	})
}

// A fieldRule describes the valid values of a field, and their decoded form.
type fieldRule struct {
	required bool
	absent   any // decoded form of an absent field
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

// checkBody compares a decoded body, or its error, with the result of encoding/json and the rules.
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
	problem := problemOf(err, &Route{}, false)
	if len(data) > defaultMaxBodyBytes && problem.Status == http.StatusRequestEntityTooLarge {
		return
	}
	if problem.Status != http.StatusUnprocessableEntity {
		t.Fatalf("%q: %v; these are wrong: %v", data, err, wrong)
	}
	if isAmbiguous(data) && problem.Details["body"] != "" {
		return
	}
	checkDetails(t, data, problem.Details, wrong)
	if at := regexp.MustCompile(`at byte (\d+)`).FindStringSubmatch(problem.Details["body"]); at != nil {
		if n, _ := strconv.Atoi(at[1]); n < 1 || n > len(data)+1 {
			t.Errorf("%q: %s", data, problem.Details["body"])
		}
	}
}

// checkDetails compares details with the expected names, of which the first have priority.
func checkDetails(t *testing.T, data []byte, details map[string]string, wrong []string) {
	t.Helper()
	kept := map[string]string{}
	for _, name := range wrong {
		kept[name] = details[name]
		if size := jsonSize(t, kept); len(kept) > 20 || size > 8<<10 || details[name] == "" && size+100 > 8<<10 {
			delete(kept, name) // beyond the size limit; texts have fewer than 100 characters
		}
	}
	if diff := cmp.Diff(kept, details); diff != "" || slices.Contains(slices.Collect(maps.Values(details)), "") {
		t.Fatalf("%q: %s", data, diff)
	}
}

// jsonSize returns the size of details in JSON.
func jsonSize(t *testing.T, details map[string]string) int {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	testkit.Must(t, encoder.Encode(details))
	return b.Len() - len("\n")
}

// readBodyAgain returns the decoded fields, or the names of all problems: those of known fields
// sorted by name, then the first 20 unknown fields, in their order and truncated.
func readBodyAgain(data []byte, rules map[string]fieldRule) (values map[string]any, wrong []string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	first, err := decoder.Token()
	if err != nil || first != json.Delim('{') || !json.Valid(data) || !utf8.Valid(data) {
		return nil, []string{"body"}
	}
	values = map[string]any{}
	bad, given := map[string]bool{}, map[string]bool{}
	var others []string
	for left := 1000; decoder.More() && !bad["body"]; {
		name, _ := decoder.Token()
		var raw json.RawMessage
		_ = decoder.Decode(&raw) // it is valid
		field := name.(string)
		rule, known := rules[field]
		n, depth := valuesIn(raw)
		switch left -= n; {
		case left < 0:
			bad["body"] = true
			if known {
				bad[field] = true
			}
		case depth > 63:
			return nil, []string{"body"}
		case known && given[field]:
			bad[field] = true
		case known:
			var ok bool
			given[field] = true
			values[field], ok = rule.read(raw)
			bad[field] = !ok
		}
		if !known {
			others = append(others, string([]rune(field)[:min(64, utf8.RuneCountInString(field))]))
		}
	}
	for field, rule := range rules {
		if !given[field] {
			values[field] = rule.absent
			bad[field] = bad[field] || rule.required && !bad["body"]
		}
	}
	maps.DeleteFunc(bad, func(_ string, is bool) bool { return !is })
	return values, append(slices.Sorted(maps.Keys(bad)), others[:min(20, len(others))]...)
}

// isAmbiguous reports whether a document may have two errors of which either may be reported: it
// has more than 1000 values, and is not JSON or is nested too deeply.
func isAmbiguous(data []byte) bool {
	few := bytes.Count(data, []byte(","))+bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) < 1000
	_, depth := valuesIn(data)
	return !few && (!json.Valid(data) || depth > 64)
}

// valuesIn returns the number of values in a valid document, including itself, and its nesting
// depth.
func valuesIn(data []byte) (n, deepest int) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var objects []bool // of the open arrays and objects, whether they are objects
	name := false      // the next string is a name
	for {
		token, err := decoder.Token()
		if err != nil {
			return n, deepest
		}
		switch {
		case token == json.Delim('}'), token == json.Delim(']'):
			objects = objects[:len(objects)-1]
		case name:
			name = false
			continue
		default:
			n++
			if token == json.Delim('{') || token == json.Delim('[') {
				objects = append(objects, token == json.Delim('{'))
				deepest = max(deepest, len(objects))
			}
		}
		name = len(objects) > 0 && objects[len(objects)-1]
	}
}

// textRule is the rule of a text.
func textRule(most int) fieldRule {
	return fieldRule{required: true, read: func(raw json.RawMessage) (any, bool) {
		text, ok := readText(raw)
		text = strings.TrimSpace(text)
		odd := strings.ContainsFunc(text, func(c rune) bool { return unicode.Is(unicode.Cc, c) && !strings.ContainsRune("\n\r\t", c) })
		odd = odd || strings.ContainsAny(text, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
		ok = ok && len(raw) <= 12*(most+1000)
		return text, ok && utf8.RuneCountInString(text) <= most && !odd && !unseen.MatchString(text) && !hasHalfPair(raw)
	}}
}

// unseen matches a text without visible characters. It lists Default_Ignorable_Code_Point of
// Unicode's DerivedCoreProperties.txt, then other invisible characters.
var unseen = regexp.MustCompile(`^[` + `\x{ad}\x{34f}\x{61c}\x{115f}-\x{1160}\x{17b4}-\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{202a}-\x{202e}` +
	`\x{2060}-\x{206f}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff0}-\x{fff8}\x{1bca0}-\x{1bca3}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}` +
	`\s\v\x{85}\pZ` + `\x{fff9}-\x{fffb}\x{13430}-\x{1343f}` + `\x{2800}\x{13441}\x{13442}\x{16fe4}\x{1d159}` + `]*$`)

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

// hasHalfPair reports whether a string literal has an escaped unpaired surrogate.
func hasHalfPair(literal []byte) bool {
	escape := regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\.|[^\\]+`)
	var last rune // high half of a pair
	for _, part := range escape.FindAll(literal, -1) {
		var unit rune
		if len(part) == 6 && part[0] == '\\' {
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
