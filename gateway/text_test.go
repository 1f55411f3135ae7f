package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"opsgate/gateway/jsonw"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

func TestTextNeedsAVisibleCharacter(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "white space": " \t\n\r\u00a0\u2003\u3000\u2028", "zero width space": "\u200b", "zero width joiner": "\u200d",
		"soft hyphen": "\u00ad", "grapheme joiner": "\u034f", "Arabic letter mark": "\u061c", "Hangul fillers": "\u115f\u1160\u3164\uffa0",
		"Khmer vowels": "\u17b4\u17b5", "Mongolian separators": "\u180b\u180e\u180f", "direction marks": "\u200e\u200f", "word joiner": "\u2060",
		"invisible operators": "\u2061\u2062\u2063\u2064", "unassigned default-ignorable": "\u2065\ufff0", "deprecated format": "\u206a\u206f",
		"Braille blank": "\u2800", "variation selectors": "\ufe00\ufe0f\U000e0100", "byte order mark": "\ufeff", "annotation": "\ufff9\ufffa\ufffb",
		"shorthand format": "\U0001bca0", "music": "\U0001d159\U0001d173", "tags": "\U000e0001\U000e0041\U000e007f", "Khitan filler": "\U00016fe4",
		"Egyptian format and blanks": "\U00013430\U00013441\U00013442",
	} {
		if problem := textProblem(text, 255); problem != "must have a character that can be seen" {
			t.Errorf("%s: %q", name, problem)
		}
		if problem := textProblem(text+"x"+text, 255); problem != "" {
			t.Errorf("%s around a letter: %q", name, problem)
		}
	}
	for _, text := range []string{"x", "ä", "語", "😀", "❤\ufe0f", "👩\u200d🚒", "\u0600", "\u0301", "\u2801", "\ufffd", "ａ", "한", "\ue000"} {
		if problem := textProblem(text, 255); problem != "" {
			t.Errorf("%q: %q", text, problem)
		}
	}
}

// So the size of a response follows from the bytes that a service stores.
func TestValidTextAtMostDoublesInAResponse(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text := "x" + string(r)
		if textProblem(text, 2) != "" {
			continue
		}
		var w jsonw.Writer
		w.BeginObject()
		w.String("", text)
		w.EndObject()
		if grown, stored := len(w.Bytes())-len(`{"":"x"}`), len(text)-1; grown > 2*stored {
			t.Errorf("%U takes %d bytes, and %d in a response", r, stored, grown)
		}
	}
}

func TestTextRejectsControlCharacters(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r <= 0xdfff {
			continue
		}
		control := r < ' ' && r != '\n' && r != '\r' && r != '\t' || 0x7f <= r && r <= 0x9f
		direction := 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
		want := ""
		switch {
		case control:
			want = "must not hold control characters other than line breaks and tabs"
		case direction:
			want = "must not hold bidirectional control characters"
		}
		if got := textProblem("x"+string(r)+"x", 255); got != want {
			t.Fatalf("%U: %q, want %q", r, got, want)
		}
	}
}

func TestTextLengthIsInCharacters(t *testing.T) {
	for _, c := range []string{"x", "ä", "😀"} {
		if problem := textProblem(strings.Repeat(c, 255), 255); problem != "" {
			t.Errorf("255 of %s: %q", c, problem)
		}
		if problem := textProblem(strings.Repeat(c, 256), 255); problem != "must have at most 255 characters (Unicode code points), not 256" {
			t.Errorf("256 of %s: %q", c, problem)
		}
	}
}

// The text about the length has the number of characters that the limit counts: code points, without the white space around the text.
func TestLengthsInErrorsAreThoseThatTheLimitCounts(t *testing.T) {
	h := start(t)
	h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident()})
	for name, c := range map[string]struct {
		literal string // of one unit, in a JSON string
		size    int    // in code points
	}{
		"a letter": {"x", 1}, "an escaped letter": {`\u0041`, 1}, "an accented letter": {"\u00e9", 1}, "a combining mark": {"e\u0301", 2},
		"CRLF": {`x\r\n`, 3}, "a surrogate pair": {`\ud83d\ude00`, 1}, "an emoji": {"😀", 1}, "a family": {"👨\u200d👩\u200d👧", 5},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{255, 10_000} {
				fits := strings.Repeat(c.literal, limit/c.size)
				fits += strings.Repeat("x", limit-limit/c.size*c.size)
				details := postTexts(t, h, limit, `\n\u2003`+fits+`\r\n`)
				if text := details["title"] + details["message"]; text != "" {
					t.Errorf("%d characters: %q", limit, text)
				}
				details = postTexts(t, h, limit, " "+fits+c.literal+"x ")
				want := fmt.Sprintf("must have at most %d characters (Unicode code points), not %d", limit, limit+c.size+1)
				if text := details["title"] + details["message"]; text != want {
					t.Errorf("%q, want %q", text, want)
				}
			}
		})
	}
}

// postTexts creates an incident whose field with this limit has the text of a JSON string. It returns the details of a 422.
func postTexts(t *testing.T, h *harness, limit int, text string) map[string]string {
	t.Helper()
	title, message := text, "m"
	if limit == 10_000 {
		title, message = "t", text
	}
	body := `{"status":"resolved","impact":"none","title":"` + title + `","message":"` + message + `"}`
	got := h.do(t, "full", "POST", "/v1/incidents", body)
	if got.StatusCode == 200 {
		return nil
	}
	return got.mustFail(t, 422, "validation_error")
}

func TestInvisibleTitlesAndMessagesAre422(t *testing.T) {
	h := start(t)
	for _, text := range []string{"\u200b", "\u2800 \u3164", "\u202ex", "a\u2066b\u2069"} {
		sent, err := json.Marshal(map[string]string{"title": text, "status": "resolved", "impact": "none", "message": text})
		if err != nil {
			t.Fatal(err)
		}
		details := h.do(t, "full", "POST", "/v1/incidents", string(sent)).mustFail(t, 422, "validation_error")
		if len(details) != 2 || details["title"] == "" || details["message"] == "" {
			t.Errorf("%q: %v", text, details)
		}
		update := `{"status":"resolved","message":"` + text + `"}`
		details = h.do(t, "full", "POST", "/v1/incidents/"+someID+"/updates", update).mustFail(t, 422, "validation_error")
		if len(details) != 1 || details["message"] == "" {
			t.Errorf("%q: %v", text, details)
		}
	}
	if h.services.lastRequest() != nil {
		t.Error("a bad text reached the service")
	}
}
