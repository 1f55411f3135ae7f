package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"opsgate/authn"
	"opsgate/gateway/openapi"
)

// A Problem is a mistake in a configuration.
type Problem struct {
	Where string // "opsgate.yaml:12", "OPSGATE_LOG_LEVEL", "--listen"; "" for a default
	Line  int    // of the file; 0 elsewhere
	Key   string // "rate_limit.limits[0].requests"; "" for the whole file
	Text  string // the text after the key

	Warning bool // it does not make the configuration invalid
}

// Error returns the problem in one line.
func (p Problem) Error() string {
	parts := make([]string, 0, 4)
	if p.Warning {
		parts = append(parts, "warning")
	}
	for _, part := range []string{p.Where, p.Key} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Schema names of problems that no key of the schema describes.
const (
	wholeFile  = "file"
	unknownKey = "unknown"
)

// SchemaKey returns the key of the schema that the problem is about: Key without the names of
// entries and the indexes of lists, or the mapping around an unknown key. It is "file" for the
// whole file, and "unknown" for an unknown key at the top level. The number of possible results is
// bounded.
func (p Problem) SchemaKey() string {
	if p.Key == "" {
		return wholeFile
	}
	all := Keys()
	for key := p.Key; key != ""; key = parentKey(key) {
		if isKey(all, key) {
			return key
		}
	}
	return unknownKey
}

// Problems are the problems of a configuration. Problems of the file are first, in the order of
// lines.
type Problems []Problem

// Error returns the problems, one a line.
func (ps Problems) Error() string { return strings.Join(ps.Lines(), "\n") }

// Lines returns a line for each problem.
func (ps Problems) Lines() []string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return lines
}

// sorted returns the problems in the order of [Problems], without duplicates.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(uint(a.Line)-1, uint(b.Line)-1), // problems without a line are last
			cmp.Compare(a.Where, b.Where),
		)
	})
	return slices.Compact(ps)
}

// With returns the problems and the warnings, sorted.
func (ps Problems) With(warnings Problems) Problems {
	all := slices.DeleteFunc(slices.Clone(warnings), func(w Problem) bool { return slices.Contains(ps, w) })
	for i := range all {
		all[i].Warning = true
	}
	return append(all, ps...).sorted()
}

// under returns the problems of a key, of keys under it, and of the whole file.
func (ps Problems) under(key string) Problems {
	return slices.DeleteFunc(ps, func(p Problem) bool {
		return key != "" && p.Key != "" && p.Key != key && !strings.HasPrefix(p.Key, key+".")
	})
}

// Problem returns a problem with the value of a key, found where the configuration is used.
func (l Loaded) Problem(key, text string) Problem { return problem(l.where(key), key, "%s", text) }

// problem returns a Problem with a formatted text.
func problem(at origin, key, format string, args ...any) Problem {
	return Problem{Where: at.String(), Line: at.line, Key: key, Text: fmt.Sprintf(format, args...)}
}

// A validator checks decoded values.
type validator struct {
	loaded   *Loaded
	refused  Problems // of the decoder; their keys get no further problem
	problems Problems
	// skipCertificates is set for a command that calls a running gateway, because the gateway may
	// use earlier contents of the files.
	skipCertificates bool
	// running has the settings of a running gateway. Its files are not read: it may be on another
	// machine.
	running []Setting
}

func (v *validator) refuse(key, format string, args ...any) {
	for _, p := range v.refused {
		if p.Key == key {
			return
		}
	}
	v.problems = append(v.problems, problem(v.loaded.where(key), key, format, args...))
}

// contactForm is the form of a contact of RFC 9116: a URI for mail, the web or the phone.
var contactForm = regexp.MustCompile(`^(mailto:[\x21-\x7e]+@|https://|tel:)[\x21-\x7e]+$`)

func (v *validator) validate() Problems {
	c := v.loaded
	v.bounds()
	v.listenAddress("listen", c.Listen)
	if c.PublicURL != "" {
		if err := openapi.CheckBaseURL(c.PublicURL); err != nil {
			v.refuse("public_url", "%v", err) // without the value, which may have a password
		}
	}
	if c.SecurityContact != "" && !contactForm.MatchString(c.SecurityContact) {
		v.refuse("security_contact", "must be a URI like mailto:security@example.com or https://example.com/security")
	}
	v.pair("tls", c.TLS.CertFile, c.TLS.KeyFile)
	v.admin()
	if c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0") {
		v.refuse("admin.listen", "is the address of the public API, %s: the admin listener needs another address", c.Listen)
	}
	if err := (authn.TokenFormat{Prefix: c.TokenPrefix}).Validate(); err != nil {
		v.refuse("token_prefix", "is not a valid prefix: %v", err)
	}
	v.timeouts()
	v.rateLimit()
	v.redis()
	v.upstreams()
	v.routes()
	v.tracing()
	v.files()
	return v.problems
}

// bounds checks every value against the bounds of its field.
func (v *validator) bounds() {
	for l := range leaves(reflect.ValueOf(v.loaded.Config)) {
		switch {
		case l.chars != "":
			if n := utf8.RuneCountInString(l.value.String()); n > length(l.chars) {
				v.refuse(l.key, "must be at most %s characters long, not %d", l.chars, n)
			}
		case l.value.Interface() == any(Auto):
		case l.min != "":
			n := l.value.Int()
			switch inside := n >= bound(l.Type, l.min) && n <= bound(l.Type, l.max); {
			case inside:
			case n == 0 && !v.loaded.sets(l.key):
				v.refuse(l.key, "is missing: it must be %s", l.rangeText())
			default:
				v.refuse(l.key, "must be %s, not %v", l.rangeText(), l.value.Interface())
			}
		}
	}
}

// length returns the chars tag as a number.
func length(chars string) int { return int(bound(reflect.TypeFor[int](), chars)) }

// bound returns a bound as a number. It panics for an invalid tag; a test parses all tags.
func bound(t reflect.Type, text string) int64 {
	v := reflect.New(t)
	if s, ok := reflect.TypeAssert[scalar](v); ok {
		if err := s.parse(text); err != nil {
			panic(fmt.Sprintf("config: the bound %q %v", text, err))
		}
		return v.Elem().Int()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: the bound %q: %v", text, err))
	}
	return n
}

// pair checks that a certificate and its key are set together.
func (v *validator) pair(key string, cert, private File) {
	switch {
	case cert != "" && private == "":
		v.refuse(key+".key_file", "is required with cert_file")
	case cert == "" && private != "":
		v.refuse(key+".cert_file", "is required with key_file")
	}
}

// listenAddress checks an address to listen on. Its host may be empty.
func (v *validator) listenAddress(key, address string) {
	if host, port, err := net.SplitHostPort(address); err != nil || !isPort(port) ||
		host != "" && !hostForm.MatchString(host) {
		v.refuse(key, "must be an address like 127.0.0.1:8080 or :8080, not %q", address)
	}
}

// hostForm matches the names that Go resolves, and IP addresses with their zones.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:%-]+$`)

// hostPort checks an address to connect to.
func (v *validator) hostPort(key, address string) {
	if host, port, err := net.SplitHostPort(address); err != nil || !hostForm.MatchString(host) || !isPort(port) ||
		port == "0" {
		v.refuse(key, "must be host:port, not %q", address)
	}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// IsLoopback reports whether a host is localhost or an address of the loopback interface.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// Reachable returns the address at which this machine reaches its listener: 127.0.0.1 for a
// listener on all addresses.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// warn adds warnings of probable mistakes. The clock is time.Now if now is nil.
func (l *Loaded) warn(now func() time.Time) {
	if now == nil {
		now = time.Now
	}
	w := warner{loaded: l, now: now()}
	w.rateLimit()
	w.exposure()
	w.plaintext()
	w.tracing()
	w.shutdown()
	w.memory()
	w.openFiles()
	w.certificates()
	l.Warnings = append(l.Warnings, w.warnings...).sorted()
}

// A warner collects warnings.
type warner struct {
	loaded   *Loaded
	now      time.Time
	warnings Problems
}

func (w *warner) warn(key, format string, args ...any) {
	w.warnings = append(w.warnings, problem(w.loaded.where(key), key, format, args...))
}
