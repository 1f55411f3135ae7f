package rehearsal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxText     = 255       // of the texts of an entry
	maxBody     = 256 << 10 // of a body that is read before the gateway; the gateway refuses longer ones
	bodyTimeout = 5 * time.Second
)

func newEntry(r *http.Request, token string, now time.Time) *Entry {
	e := &Entry{Token: token, Method: r.Method, Path: clip(r.URL.Path), Key: clip(r.Header.Get("Idempotency-Key")), Arrived: now}
	query := r.URL.Query()
	page := make(url.Values)
	for _, name := range []string{"cursor", "page", "limit", "pageSize"} {
		if values, ok := query[name]; ok {
			page[name] = values
			delete(query, name)
		}
	}
	e.Query, e.Page, e.Cursor = clip(query.Encode()), clip(page.Encode()), clip(page.Get("cursor"))
	return e
}

// clip returns the text, cut at maxText. The hash of a long text keeps texts apart that begin alike, as cursors do.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText-8] + hash([]byte(text))[:8]
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// readBody returns the hash of the JSON value of a POST, and "" if the body is empty, too long or incomplete. The gateway reads the body
// again, and gets the same error at the same place: it must not wait a second time for a body that is late.
func readBody(w http.ResponseWriter, r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only if the client has closed the connection
	content, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	_ = connection.SetReadDeadline(time.Time{})
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failedReader{err}
	}
	r.Body = readCloser{io.MultiReader(bytes.NewReader(content), rest), r.Body}
	if err != nil || len(content) == 0 || len(content) == maxBody {
		return ""
	}
	if value := jsontext.Value(slices.Clone(content)); value.Canonicalize() == nil {
		return hash(value)
	}
	return hash(content)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// A failedReader returns the error of an earlier read.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }
