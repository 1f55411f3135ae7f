package gateway

import (
	"fmt"
	"strings"
	"testing"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// The text about the length has the number of characters that the limit counts: code points,
// without the white space around the text.
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

// postTexts creates an incident whose field with this limit has the text of a JSON string. It
// returns the details of a 422.
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
