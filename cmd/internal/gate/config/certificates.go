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

// A Certificate is the validity of one file. A chain is valid while its leaf and the issuers that
// the leaf needs are. A file of roots is valid from the earliest NotBefore to the latest NotAfter.
type Certificate struct {
	Key    string    `json:"key"`    // of the configuration: "upstreams.fleet.tls.cert_file"
	Begins time.Time `json:"begins"` // in UTC
	Ends   time.Time `json:"ends"`   // in UTC
}

// RenewBefore is the remaining validity below which a certificate should be renewed.
const RenewBefore = 30 * 24 * time.Hour

// files checks that the files of certificates and keys can be read and match, and sets
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
// new connections use, sorted by key. If files of a group cannot be read or do not match, new
// connections use their previous contents, so the certificates of that group in inUse are returned.
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

// KeepStartOnly returns list with the certificates of the trace collector taken from inUse instead,
// because their files are read only at the start.
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

// validity returns when a file of certificates is valid: a chain while the leaf and all needed
// issuers are, roots while one of them is, because a file has the old and the new root during a
// change.
func validity(list []*x509.Certificate, isChain bool) (begins, ends time.Time) {
	byStart := func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }
	byEnd := func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }
	if isChain {
		list = needed(list)
		begins, ends = slices.MaxFunc(list, byStart).NotBefore, slices.MinFunc(list, byEnd).NotAfter
	} else {
		begins, ends = slices.MinFunc(list, byStart).NotBefore, slices.MaxFunc(list, byEnd).NotAfter
	}
	return begins.UTC(), ends.UTC()
}

// needed returns the leaf and the chain of its issuers in the file; of several certificates for one
// issuer, the one that expires last. It stops before a root, which clients have, and before an
// issuer that had expired when the leaf became valid (an old cross-signed root).
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

// InvalidCertificates returns a problem for each certificate that is not valid at a time. Such a
// certificate does not prevent a start, because the rest of the API works.
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
