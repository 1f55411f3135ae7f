package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Certificate is a file of certificates, and when it is valid: a chain while the first one and
// the issuers that it needs are, a file of roots from the first to the last.
type Certificate struct {
	Key    string    `json:"key"`    // of the configuration: "upstreams.fleet.tls.cert_file"
	Begins time.Time `json:"begins"` // in UTC
	Ends   time.Time `json:"ends"`   // in UTC
}

// RenewBefore is how long before its end a certificate should have been renewed.
const RenewBefore = 30 * 24 * time.Hour

// files checks that the files of certificates and keys can be read and fit together, and sets
// Loaded.Certificates.
func (v *validator) files() {
	content := make(map[string][]byte) // by key
	for leaf := range leaves(reflect.ValueOf(v.loaded.Config)) {
		ofRunning := slices.ContainsFunc(v.running, func(s Setting) bool { return s.Key == leaf.key })
		if path, ok := reflect.TypeAssert[File](leaf.value); ok && path != "" && !ofRunning {
			text, err := v.loaded.Reader.Read(string(path))
			if err != nil {
				v.refuse(leaf.key, "names a file that cannot be read: %v", err)
				continue
			}
			content[leaf.key] = text
		}
	}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		if !v.skipCertificates && !strings.HasSuffix(key, ".key_file") {
			v.certificate(key, content)
		}
	}
}

// certificate checks the file of a certificate or of roots.
func (v *validator) certificate(key string, content map[string][]byte) {
	list := parseCertificates(content[key])
	if len(list) == 0 {
		v.refuse(key, "names a file without a certificate")
		return
	}
	group, isChain := strings.CutSuffix(key, ".cert_file")
	if private := content[group+".key_file"]; isChain && private != nil {
		if _, err := tls.X509KeyPair(content[key], private); err != nil {
			v.refuse(group+".key_file", "does not fit cert_file: %v", err)
		}
	}
	begins, ends := validity(list, isChain)
	v.loaded.Certificates = append(v.loaded.Certificates, Certificate{key, begins, ends})
}

// RereadCertificates reads the files of the configuration again, and returns the certificates that
// new connections use, sorted by key. Of files that do not fit together, these are those of inUse.
func (l Loaded) RereadCertificates(inUse []Certificate) []Certificate {
	v := &validator{loaded: &Loaded{Config: l.Config, Reader: l.Reader}}
	v.files()
	isRefused := func(c Certificate) bool {
		return slices.ContainsFunc(v.problems, func(p Problem) bool { return parentKey(p.Key) == parentKey(c.Key) })
	}
	list := slices.DeleteFunc(v.loaded.Certificates, isRefused)
	for _, c := range inUse {
		if isRefused(c) {
			list = append(list, c)
		}
	}
	return sortedByKey(list)
}

// KeepStartOnly returns the certificates of list, but from inUse those of the trace collector,
// whose files are read only at the start.
func KeepStartOnly(list, inUse []Certificate) []Certificate {
	startOnly := func(c Certificate) bool { return strings.HasPrefix(c.Key, "tracing.") }
	list = slices.DeleteFunc(slices.Clone(list), startOnly)
	return sortedByKey(append(list,
		slices.DeleteFunc(slices.Clone(inUse), func(c Certificate) bool { return !startOnly(c) })...))
}

func sortedByKey(list []Certificate) []Certificate {
	slices.SortFunc(list, func(a, b Certificate) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// parseCertificates returns the certificates of a PEM file, without those that cannot be parsed.
func parseCertificates(content []byte) (list []*x509.Certificate) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, c)
		}
	}
	return list
}

// validity returns when a file of certificates is valid. Of roots, one is enough: a file has the
// old and the new root during a change.
func validity(list []*x509.Certificate, isChain bool) (begins, ends time.Time) {
	if isChain {
		list = needed(list)
	}
	begins, ends = list[0].NotBefore, list[0].NotAfter
	for _, c := range list {
		if c.NotAfter.Before(ends) == isChain {
			ends = c.NotAfter
		}
		if c.NotBefore.After(begins) == isChain {
			begins = c.NotBefore
		}
	}
	return begins.UTC(), ends.UTC()
}

// needed returns the first certificate of a chain and the issuers in it, of several for the same
// key that which ends last. It omits roots, which clients have, and an issuer that had ended before
// the first certificate began, such as an old cross-signed root, with those above.
func needed(chain []*x509.Certificate) []*x509.Certificate {
	list := chain[:1:1]
	for range chain {
		var issuer *x509.Certificate
		for _, c := range chain[1:] {
			if list[len(list)-1].CheckSignatureFrom(c) == nil && (issuer == nil || c.NotAfter.After(issuer.NotAfter)) {
				issuer = c
			}
		}
		if issuer == nil || issuer.CheckSignatureFrom(issuer) == nil || issuer.NotAfter.Before(chain[0].NotBefore) {
			break
		}
		list = append(list, issuer)
	}
	return list
}

// InvalidCertificates returns a problem for each certificate that is not valid at a time. A gateway
// serves with one, because the rest of the API works.
func (l Loaded) InvalidCertificates(now time.Time) (problems Problems) {
	for _, c := range l.Certificates {
		switch {
		case !c.Ends.After(now):
			problems = append(problems, l.Problem(c.Key, "has expired, at "+Time{c.Ends}.String()))
		case c.Begins.After(now):
			problems = append(problems, l.Problem(c.Key, "is not valid before "+Time{c.Begins}.String()))
		}
	}
	return problems.sorted()
}

// certificates warns of certificates that should have been renewed.
func (w *warner) certificates() {
	w.warnings = append(w.warnings, w.loaded.InvalidCertificates(w.now)...)
	for _, c := range w.loaded.Certificates {
		if left := c.Ends.Sub(w.now); left > 0 && left < RenewBefore {
			w.warn(c.Key, "expires in %s, at %s: renew it", RoundedDuration(left), Time{c.Ends})
		}
	}
}
