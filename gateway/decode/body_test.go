package decode

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJSONErrorsReportTheirPosition(t *testing.T) {
	for body, want := range map[string]string{
		"":                   "is empty; it must be a JSON object",
		" \n":                "is empty; it must be a JSON object",
		"\xff":               "is not valid UTF-8",
		"\xef\xbb\xbf{}":     "begins with a byte order mark (BOM); send UTF-8 without it",
		"\xff\xfe{\x00}\x00": "begins with a byte order mark (BOM) of UTF-16; send UTF-8 without it",
		"\xfe\xff\x00{\x00}": "begins with a byte order mark (BOM) of UTF-16; send UTF-8 without it",
		"{}\ufeff":           "has more after its JSON value, at byte 3",
		" {":                 "is not JSON: the mistake is at byte 3",
		"{'a':1}":            "is not JSON: the mistake is at byte 2",
		`{"a" 1}`:            "is not JSON: the mistake is at byte 6",
		`{"a":01}`:           "is not JSON: the mistake is at byte 7",
		`{"a":[1,]}`:         "is not JSON: the mistake is at byte 9",
		`{"a":{"b":1,}}`:     "is not JSON: the mistake is at byte 13",
		`{"a":nul}`:          "is not JSON: the mistake is at byte 9",
		`{"a":1,}`:           "is not JSON: the mistake is at byte 8",
		"{\"a\":\"\n\"}":     "is not JSON: the mistake is at byte 7",
		`{"a":"\u12x4"}`:     "is not JSON: the mistake is at byte 11",
		`{"a":"`:             "is not JSON: the mistake is at byte 7",
		"\x00":               "is not JSON: the mistake is at byte 1",
		`{"a":1} {}`:         "has more after its JSON value, at byte 9",
		"[1] 2":              "has more after its JSON value, at byte 5",
		` [{"a":[1.5e-7]}] `: "must be a JSON object",
		"null":               "must be a JSON object",
		nestedArrays(64):     "has a value that is nested deeper than 63 levels",
		nestedArrays(20_000): "has a value that is nested deeper than 63 levels",
	} {
		err := (&Body{}).readObject([]byte(body))
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", body, err, want)
		}
	}
	if err := (&Body{}).readObject([]byte(nestedArrays(63))); err != nil {
		t.Errorf("63 levels: %v", err)
	}
	// What follows the last value allowed is not read.
	if err := (&Body{}).readObject([]byte("[" + strings.Repeat("0,", 1001) + "no JSON")); err == nil || err.Error() != "has more than 1000 values" {
		t.Errorf("an array of more than 1000 values: %v", err)
	}
}

func nestedArrays(n int) string {
	return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
}

// The limit counts code points, without the white space around the text, which has a limit too.
func TestLengthOfTextsIsLimited(t *testing.T) {
	const char = `\ud83d\ude00`
	tooLong := "must have at most 255 characters (Unicode code points), with at most 1000 of white space around them"
	for literal, want := range map[string]string{
		`"` + strings.Repeat(`\u2003\n`, 500) + strings.Repeat(char, 255) + strings.Repeat(" ", 500) + `"`: "",
		`"` + strings.Repeat(`\u2003\n`, 500) + strings.Repeat(char, 256) + `"`:                            "must have at most 255 characters (Unicode code points), not 256",
		`"` + strings.Repeat("e\u0301", 128) + `"`:                                                         "must have at most 255 characters (Unicode code points), not 256",
		`"` + strings.Repeat(`x\r\n`, 86) + `"`:                                                            "must have at most 255 characters (Unicode code points), not 256",
		`"x` + strings.Repeat(" ", 1255*12-3) + `"`:                                                        "",
		`"x` + strings.Repeat(" ", 1255*12-2) + `"`:                                                        tooLong,
		`"` + strings.Repeat(char, 1255) + `"`:                                                             tooLong,
		`"` + strings.Repeat(`\n`, 1000) + `"`:                                                             "must have a character that can be seen",
		`"` + strings.Repeat(`\n`, 1000) + `\ud83d\u0061"`:                                                 "contains an unpaired surrogate",
	} {
		b := &Body{fields: []field{{name: "title", value: []byte(literal)}}}
		if b.Text("title", 255); b.problems["title"] != want {
			t.Errorf("%.20s of %d bytes: %q, want %q", literal, len(literal), b.problems["title"], want)
		}
	}
}

func TestUnknownFieldsShowNoToken(t *testing.T) {
	b := Body{LiveTokenPrefix: "ops_live_"}
	b.Reset(nil, []string{"title"})
	b.Parse([]byte(`{"title": "t", "by \u006fps_live_secret": 1, "ops_live": 2}`))
	problem, _ := errors.AsType[*Error](b.Finish())
	const text = "is not a field of this request"
	if diff := cmp.Diff(map[string]string{"by ops_live_…": text, "ops_live": text}, problem.Details); diff != "" {
		t.Error(diff)
	}
}
