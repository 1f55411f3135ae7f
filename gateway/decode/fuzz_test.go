package decode

import (
	"math"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Each decoder is compared with a slower implementation that is built from other parts and reads
// like the rule.

// Forms of valid input.
var (
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$`)
	nameForm = regexp.MustCompile(`^[\x20-\x7e]{1,64}$`)
	keyForm  = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)
)

func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"", "limit=1", "limit=1&limit=2", "a=%zz&range=1h", "since=2026-01-01T00:00:00+01:00", "since=2026-01-01T00:00:00.5-23:59",
		"since=0000-02-29T23:59:60Z", "&&==&limit", "cursor=%ff", "%6cimit=3", "limit=00100", "page=2147483648", "action=a%00", "cursor=&cursor=",
		"limit", "limit=1.0", "limit=99999999999999999999", "limit=1&%6Cimit=2", "limit=%ff", "range=1H", "range=1h&range=1h",
		"since=2026-01-02", "since=2026-01-02T03:04:05", "since=2026-01-02T03:04:05+0100", "since=2026-01-02T03:04:05-9999", "since=2026-02-30T03:04:05Z", "since=2026-01-02+03:04:05Z",
		"since=2026-01-01T00:00:00%2B24:00", "since=2026-01-01T00:00:00-02:60", "limit=-0", "page=+1", "limit=%2b1", "range=7D", "a;b=c&limit=5", "since=2026-1-01T00:00:00Z", "since=2026-01-01T00:00:00,5Z",
		`a"b\c=1&a+b&%61&a&limit&LIMIT&%`, "a&b&c&d&e&f&g&h&i&j&k&%0a",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q := NewQuery(raw)
		var got readings
		got.limit, got.page, got.action = q.Int("limit", 1, 100, 50), q.Int("page", 1, math.MaxInt32, 1), q.Text("action")
		got.cursor, got.ignored = q.Cursor()
		got.since = q.Time("since", time.Unix(0, 0).UTC())
		got.span = int32(q.OneOf("range", []string{"1h", "24h", "7d", "30d"}) + 1)
		for name, text := range q.problems {
			if text == "" {
				t.Errorf("a problem of %s without a text", name)
			}
			got.wrong = append(got.wrong, name)
		}
		slices.Sort(got.wrong)
		if err := timestamppb.New(got.since).CheckValid(); err != nil {
			t.Error(err)
		}
		if unknown, want := q.Unknown([]string{"limit", "action"}, "ops_live_"), unknownAgain(raw, "limit", "action"); unknown != want {
			t.Errorf("%q: unknown parameters %s, want %s", raw, unknown, want)
		}
		values, err := url.ParseQuery(raw)
		if err != nil {
			return // the standard library skips a pair that it cannot decode, and Query does not
		}
		if diff := cmp.Diff(readAgain(values), got, cmp.AllowUnexported(readings{})); diff != "" {
			t.Errorf("%q: %s", raw, diff)
		}
	})
}

// unknownAgain returns the unknown parameters by the rules of the standard library.
func unknownAgain(raw string, known ...string) string {
	var names []string
	for pair := range strings.SplitSeq(raw, "&") {
		key, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		if err == nil && nameForm.MatchString(name) && !strings.Contains(name, "ops_live_") && !slices.Contains(known, name) && !slices.Contains(names, quoted) {
			names = append(names, quoted)
		}
	}
	return strings.Join(names[:min(10, len(names))], ", ")
}

// readings are the decoded parameters of a query.
type readings struct {
	limit, page, span int32
	action, cursor    string
	ignored           bool
	since             time.Time
	wrong             []string
}

// readAgain decodes the parameters with the standard library.
func readAgain(values url.Values) readings {
	r := readings{limit: 50, page: 1, since: time.Unix(0, 0).UTC()}
	one := func(name string, read func(text string) bool) {
		switch all := values[name]; {
		case len(all) == 0:
		case len(all) > 1 || !validText(all[0]) || !read(all[0]):
			r.wrong = append(r.wrong, name)
		}
	}
	number := func(name string, to *int32, most int64) {
		one(name, func(text string) bool {
			n, ok := new(big.Int).SetString(text, 10)
			ok = ok && !strings.ContainsAny(text, "+_") && n.Sign() > 0 && n.Cmp(big.NewInt(most)) <= 0
			if ok {
				*to = int32(n.Int64())
			}
			return ok
		})
	}
	one("action", func(text string) bool { r.action = text; return true })
	number("limit", &r.limit, 100)
	number("page", &r.page, math.MaxInt32)
	one("range", func(text string) bool {
		r.span = map[string]int32{"1h": 1, "24h": 2, "7d": 3, "30d": 4}[text]
		return r.span > 0
	})
	one("since", func(text string) bool {
		text = regexp.MustCompile(`([ +-]\d\d)(\d\d)$`).ReplaceAllString(text, "$1:$2")
		text = regexp.MustCompile(` (\d\d:\d\d)$`).ReplaceAllString(text, "+$1") // a + in a query is decoded as a space
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || !timeForm.MatchString(text) {
			return false
		}
		r.since = at.UTC()
		return true
	})
	if all := values["cursor"]; len(all) > 1 || len(all) == 1 && (len(all[0]) > 512 || !validText(all[0])) {
		r.ignored = true
	} else if len(all) == 1 {
		r.cursor = all[0]
	}
	return r
}

func FuzzIdempotencyKey(f *testing.F) {
	f.Add("7c9e2f60-3b1d-4a58-8e90-d2f6a1b4c705", "", false)
	f.Add("two words", "", false)
	f.Add("", "", false)
	f.Add(strings.Repeat("k", 255), strings.Repeat("k", 256), true)
	f.Add("\x7f", "ü", true)
	f.Fuzz(func(t *testing.T, first, second string, twice bool) {
		sent := []string{first}
		if twice {
			sent = append(sent, second)
		}
		b := &Body{header: http.Header{"Idempotency-Key": sent}, problems: map[string]string{}}
		key, want := b.IdempotencyKey(), ""
		good := !twice && keyForm.MatchString(first)
		if good {
			want = first
		}
		if key != want || good == (b.problems[IdempotencyKeyHeader] != "") || len(b.problems) > 1 {
			t.Errorf("%q is read as %q: %v", sent, key, b.problems)
		}
	})
}
