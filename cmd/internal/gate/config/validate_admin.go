package config

import (
	"net"
	"net/netip"
)

// adminTokenMin is the minimum length of the admin token and of that for metrics.
const adminTokenMin = 16

// admin checks that an admin listener outside loopback requires authentication.
func (v *validator) admin() {
	a := v.loaded.Admin
	v.listenAddress("admin.listen", a.Listen)
	v.adminToken("admin.token", a.Token)
	v.adminToken("admin.metrics_token", a.MetricsToken)
	if token := a.Token.Reveal(); token != "" && token == a.MetricsToken.Reveal() {
		v.refuse("admin.metrics_token", "is the same as admin.token, which opens every path")
	}
	v.pair("admin.tls", a.TLS.CertFile, a.TLS.KeyFile)
	if a.TLS.ClientCAFile != "" && a.TLS.CertFile == "" {
		v.refuse("admin.tls.client_ca_file", "needs cert_file and key_file: client certificates need TLS")
	}
	host, _, err := net.SplitHostPort(a.Listen)
	if err == nil && !isLoopback(host) && a.Token.Reveal() == "" && a.TLS.ClientCAFile == "" {
		v.refuse("admin.listen",
			"is %s, not on loopback: set admin.token or admin.tls.client_ca_file, or listen on 127.0.0.1 or localhost", a.Listen)
	}
}

func (v *validator) adminToken(key string, s Secret) {
	if token := s.Reveal(); token != "" && len(token) < adminTokenMin {
		v.refuse(key, "has fewer than %d characters", adminTokenMin)
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
