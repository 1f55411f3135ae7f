// Package client calls the opsgate API. It stays within the rate limits of the token, repeats what
// failed temporarily, and reads all pages of lists. Goroutines may share a client.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// restarts limits how often a list is read from its first page again.
const restarts = 3

// A Client has all operations of the API.
type Client struct {
	url, token string
	retrier    *Retrier
}

// New returns a client of the API at a URL.
func New(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("the URL of the API must be like https://api.example.com, without a user, a query and a " +
			"fragment")
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token is empty, or has a character that no token has, such as a space or a line end")
	}
	return &Client{strings.TrimSuffix(base, "/"), token, &Retrier{}}, nil
}

// WithRetrier returns a client that sends requests by another Retrier, for example with a proxy, or
// other times.
func (c *Client) WithRetrier(r *Retrier) *Client { return &Client{c.url, c.token, r} }

// An Error is a request that the API refused, also after repeats. Code is stable, Message is not.
type Error struct {
	Status     int               `json:"-"`
	Code       string            `json:"code"`
	Message    string            `json:"error"`
	Details    map[string]string `json:"details"` // a text for each invalid field of a 422, and what is missing of a 403
	RequestID  string            `json:"-"`
	RetryAfter time.Duration     `json:"-"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("%d %s: %s %v (request %s)", e.Status, e.Code, e.Message, e.Details, e.RequestID)
}

func newError(res *http.Response, body []byte) *Error {
	if token := strings.TrimPrefix(res.Request.Header.Get("Authorization"), "Bearer "); token != "" {
		body = bytes.ReplaceAll(body, []byte(token), []byte("[token]")) // a proxy may return the request
	}
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), RetryAfter: retryAfter(res.Header)}
	if err := json.Unmarshal(body, e); err != nil {
		e.Message = string(body) // not from the API, but from a proxy before it
	}
	return e
}

func withID(path, id string) string { return strings.Replace(path, "{id}", url.PathEscape(id), 1) }

func call[T any](
	ctx context.Context, c *Client, method, path string, query url.Values, body any, key string,
) (answer T, err error) {
	_, err = c.send(ctx, method, path, query, body, key, &answer)
	return answer, err
}

func (c *Client) send(
	ctx context.Context, method, path string, query url.Values, body any, key string, answer any,
) (http.Header, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if body == nil {
		content = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query.Encode()
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", cmp.Or(key, rand.Text()))
	}
	res, err := c.retrier.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return res.Header, json.NewDecoder(res.Body).Decode(answer)
}

// all yields each item once. A cursor that the API ignores restarts the list at its first page.
func all[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		query := maps.Clone(query) // the iterator can be used again
		seen := map[string]bool{}
		for left := restarts; ; {
			var page page[T]
			header, err := c.send(ctx, http.MethodGet, path, query, nil, "", &page)
			if header.Get("Cursor-Status") == "ignored" {
				if left--; left < 0 {
					err = errors.New("the API accepts no cursor")
				}
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !seen[item.id] && !yield(item.value, nil) {
					return
				}
				seen[item.id] = true
			}
			if !page.next(query) {
				return
			}
		}
	}
}

type page[T any] struct {
	Items                 []item[T]
	NextCursor            string // empty on the last
	Page, PageSize, Total int    // of lists with page numbers
}

// next sets the parameters of the next page, if there is one.
func (p page[T]) next(query url.Values) bool {
	switch {
	case p.NextCursor != "":
		query.Set("cursor", p.NextCursor)
	case p.Page*p.PageSize < p.Total:
		query.Set("page", strconv.Itoa(p.Page+1))
	default:
		return false
	}
	return true
}

type item[T any] struct {
	id    string
	value T
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *item[T]) UnmarshalJSON(data []byte) error {
	var named struct{ ID string }
	err := json.Unmarshal(data, &named)
	i.id = named.ID
	return errors.Join(err, json.Unmarshal(data, &i.value))
}
