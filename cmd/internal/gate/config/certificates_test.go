package config_test

import (
	"slices"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/certs/certstest"
)

// A chain ends with its first certificate or an issuer that this needs, not with a certificate that
// clients do not use.
func TestAChainEndsWithTheCertificatesThatItNeeds(t *testing.T) {
	day := func(n int) time.Time { return time.Now().AddDate(0, 0, n).UTC().Truncate(time.Second) }
	root, old, other := certstest.NewAuthority(t, "root"), certstest.NewAuthority(t, "old root"), certstest.NewAuthority(t, "other")
	crossed := old.Cross(t, root, day(-99), day(-2))
	issuer := root.Intermediate(t, "issuer", day(-98), day(50))
	leaf := issuer.Valid(t, 1, day(-1), day(60))
	short := issuer.Valid(t, 2, day(-1), day(40))
	for _, test := range []struct {
		name  string
		leaf  certstest.Pair
		chain [][]byte
		want  time.Time
	}{
		{"the issuer ends first", leaf, [][]byte{issuer.PEM}, day(50)},
		{"the leaf ends first", short, [][]byte{issuer.PEM}, day(40)},
		{"an expired cross-signed root", leaf, [][]byte{issuer.PEM, crossed}, day(50)},
		{"in another order", leaf, [][]byte{crossed, issuer.PEM}, day(50)},
		{"a renewed issuer beside the old one", leaf, [][]byte{issuer.PEM, root.Cross(t, issuer, day(-1), day(99))}, day(60)},
		{"a root and a certificate of nothing here", leaf, [][]byte{issuer.PEM, root.PEM, other.PEM}, day(50)},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := slices.Concat(append([][]byte{test.leaf.Certificate}, test.chain...)...)
			files := certstest.Write(t, chain, test.leaf.Key)
			got := loadText(t, "tls: {cert_file: "+files[0]+", key_file: "+files[1]+"}\n").Certificates
			if len(got) != 1 || !got[0].Ends.Equal(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Connections to the collector of traces keep the files of the start.
func TestKeepStartOnlyKeepsTheCertificatesOfTheCollector(t *testing.T) {
	certificate := func(key string, serial int) config.Certificate {
		return config.Certificate{Key: key, Ends: time.Unix(int64(serial), 0)}
	}
	inUse := []config.Certificate{certificate("tls.cert_file", 1), certificate("tracing.tls.ca_file", 2)}
	reread := []config.Certificate{certificate("tls.cert_file", 3), certificate("tracing.tls.ca_file", 4)}
	if got := config.KeepStartOnly(reread, inUse); !slices.Equal(got, []config.Certificate{reread[0], inUse[1]}) {
		t.Errorf("got %v", got)
	}
}
