package config

import (
	"net"
	"reflect"
	"strconv"
	"strings"

	"opsgate/authn"
	"opsgate/gateway/baseurl"
)

// A validator checks decoded values.
type validator struct {
	loaded   *Loaded
	refused  Problems // of the decoder; their keys get no further problem
	problems Problems
}

func (v *validator) refuse(key, format string, args ...any) {
	for _, p := range v.refused {
		if p.Key == key {
			return
		}
	}
	v.problems = append(v.problems, problem(v.loaded.where(key), key, format, args...))
}

func (v *validator) validate() Problems {
	c := v.loaded
	v.bounds(reflect.ValueOf(c.Config), "")
	v.listenAddress("listen", c.Listen)
	if c.PublicURL != "" {
		if err := baseurl.Check(c.PublicURL); err != nil {
			v.refuse("public_url", "%v", err) // without the value, which may have a password
		}
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

// timeouts checks the relations of timeouts.
func (v *validator) timeouts() {
	c := v.loaded
	if c.HTTP.WriteTimeout <= c.HTTP.BodyTimeout+c.HTTP.RequestTimeout {
		v.refuse("http.write_timeout", "is %s, not more than body_timeout of %s and request_timeout of %s together: "+
			"a late response could not be written", c.HTTP.WriteTimeout, c.HTTP.BodyTimeout, c.HTTP.RequestTimeout)
	}
	if c.Authn.StaleFor < c.Authn.FreshFor {
		v.refuse("authn.stale_for", "is %s, less than fresh_for of %s", c.Authn.StaleFor, c.Authn.FreshFor)
	}
}

// files checks that the files of certificates and keys can be read.
func (v *validator) files() {
	for leaf := range leaves(reflect.ValueOf(v.loaded.Config)) {
		if path, ok := reflect.TypeAssert[File](leaf.value); ok && path != "" {
			if err := path.check(); err != nil {
				v.refuse(leaf.key, "%v", err)
			}
		}
	}
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
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		v.refuse(key, "must be an address like 127.0.0.1:8080 or :8080, not %q", address)
	}
}

// hostPort checks an address to connect to.
func (v *validator) hostPort(key, address string) {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || !isPort(port) || port == "0" {
		v.refuse(key, "must be host:port, not %q", address)
	}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
