package config

import (
	"net"
	"net/netip"
)

// adminTokenMin is the minimum length of the admin token.
const adminTokenMin = 16

// admin checks that an admin listener outside loopback requires authentication.
func (v *validator) admin() {
	a := v.loaded.Admin
	v.listenAddress("admin.listen", a.Listen)
	if token := a.Token.Reveal(); token != "" && len(token) < adminTokenMin {
		v.refuse("admin.token", "has fewer than %d characters", adminTokenMin)
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

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
