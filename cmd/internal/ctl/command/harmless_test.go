package command_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// dangerous returns texts with characters that change or hide what a terminal shows.
func dangerous() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("a\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028")),
		rapid.RuneFrom(nil, &unicode.RangeTable{
			R16: []unicode.Range16{{Lo: 0, Hi: 0x1f, Stride: 1}, {Lo: 0x7f, Hi: 0x9f, Stride: 1}},
			R32: []unicode.Range32{{Lo: 0xe0000, Hi: 0xe007f, Stride: 1}},
		})))
}

// In every format for terminals, no text of the server has a character that a terminal would not
// print. JSON has the same value.
func TestNoOutputForTerminalsHasUnprintableCharacters(t *testing.T) {
	const id = "01234567-89ab-7def-8123-456789abcdef"
	var next http.HandlerFunc
	s := startStub(t, func(w http.ResponseWriter, r *http.Request) { next(w, r) })
	s.terminal = true
	rapid.Check(t, func(rt *rapid.T) {
		text := dangerous().Draw(rt, "text")
		raw := strings.NewReplacer(`"`, "", `\`, "", "\n", "", "\r", "", "\t", "").Replace(text) // as a server may write it
		raw = strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, raw)
		for command, body := range map[string]string{
			"server-groups list": `[{"id": "` + id + `", "name": ` + quote(text) + `, "color": "` + raw + `"}]`,
			"incidents get " + id: `{"id": "` + id + `", "title": ` + quote(text) +
				`, "updates": [{"status": "` + raw + `", "message": ` + quote(text) + `}]}`,
			"api GET /v1/x": "{\r\t\"" + raw + "\": " + quote(text) + "}",
		} {
			for _, output := range []string{"table", "json"} {
				next = answer(200, body)
				r := s.run(t, append(strings.Fields(command), "-o", output)...)
				mustBePrintable(rt, r.out+r.err)
				if r.code != 0 {
					rt.Errorf("%s: exit code %d\n%s", command, r.code, r.err)
				}
				var got, want any
				if output == "json" && (json.Unmarshal([]byte(r.out), &got) != nil || json.Unmarshal([]byte(body), &want) != nil || !reflect.DeepEqual(got, want)) {
					rt.Errorf("%s: printed %q for %q", command, r.out, body)
				}
				next = answer(422, `{"error": "`+raw+`", "code": `+quote(text)+`, "details": {`+quote(text)+`: "`+raw+`"}}`)
				mustBePrintable(rt, s.run(t, append(strings.Fields(command), "-o", output)...).err)
			}
		}
		next = answer(200, text)
		mustBePrintable(rt, strings.ReplaceAll(s.run(t, "api", "GET", "/x").out, "\t", ""))
	})
}

// mustBePrintable checks that a terminal shows each character of a text.
func mustBePrintable(t *rapid.T, text string) {
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U in %q", r, text)
		}
	}
}
