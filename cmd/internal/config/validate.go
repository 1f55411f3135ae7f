package config

import (
	"net"
	"reflect"
	"strconv"
	"strings"

	"opsgate/authn"
)

// A validator finds what is wrong with values that could be decoded.
type validator struct {
	loaded   *Loaded
	refused  Problems // by the decoder: what is said of a key there is enough
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
	v.pair("tls", c.TLS.CertFile, c.TLS.KeyFile)
	v.admin()
	if c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0") {
		v.refuse("admin.listen", "is the address of the public API, %s: operators need one of their own", c.Listen)
	}
	if err := (authn.TokenFormat{Prefix: c.TokenPrefix}).Validate(); err != nil {
		v.refuse("token_prefix", "makes no token: %v", err)
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

// timeouts checks what must be shorter than what.
func (v *validator) timeouts() {
	c := v.loaded
	if c.HTTP.WriteTimeout <= c.HTTP.BodyTimeout+c.HTTP.RequestTimeout {
		v.refuse("http.write_timeout", "is %s, not more than body_timeout of %s and request_timeout of %s together: "+
			"a late answer could not be written", c.HTTP.WriteTimeout, c.HTTP.BodyTimeout, c.HTTP.RequestTimeout)
	}
	if c.Authn.StaleFor < c.Authn.FreshFor {
		v.refuse("authn.stale_for", "is %s, less than fresh_for of %s", c.Authn.StaleFor, c.Authn.FreshFor)
	}
}

// files checks that the files that others will read are there, so that a check finds it out and not a start.
func (v *validator) files() {
	for leaf := range leaves(reflect.ValueOf(v.loaded.Config)) {
		if path, ok := reflect.TypeAssert[File](leaf.value); ok && path != "" {
			if err := path.check(); err != nil {
				v.refuse(leaf.key, "%v", err)
			}
		}
	}
}

// pair checks a certificate's file and its key's, neither of which is of use alone.
func (v *validator) pair(key string, cert, private File) {
	switch {
	case cert != "" && private == "":
		v.refuse(key+".key_file", "is required with cert_file: where is the certificate's key?")
	case cert == "" && private != "":
		v.refuse(key+".cert_file", "is required with key_file: where is the key's certificate?")
	}
}

// listenAddress checks an address to listen on: its host may be missing.
func (v *validator) listenAddress(key, address string) {
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		v.refuse(key, "is an address such as 127.0.0.1:8080 or :8080, not %q", address)
	}
}

// hostPort checks an address to connect to.
func (v *validator) hostPort(key, address string) {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || !isPort(port) || port == "0" {
		v.refuse(key, "has an address host:port, not %q", address)
	}
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
