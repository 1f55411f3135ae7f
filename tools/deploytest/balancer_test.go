package deploytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// Gateways trust the load balancer with the client's address and the trace headers, so clients cannot write them.
func TestBalancerReplacesHeadersThatGatewaysTrust(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q", r.Header["X-Forwarded-For"], r.Header["Traceparent"])
	}))
	defer gateway.Close()
	address := balancer(t, gateway.Listener.Addr().String())
	for name, headers := range map[string]http.Header{
		"none": {},
		"forged": {
			"X-Forwarded-For": {"6.6.6.6", "7.7.7.7, 8.8.8.8"},
			"Traceparent":     {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		},
	} {
		var got answer
		testkit.Eventually(t, "HAProxy serves", func() bool {
			got = fetch(t, http.DefaultClient, http.MethodGet, "http://"+address+"/", headers, "")
			return got.status == http.StatusOK
		})
		if want := `["127.0.0.1"] []`; got.body != want {
			t.Errorf("with %s, the gateway receives %s, want %s", name, got.body, want)
		}
	}
}

// balancer runs HAProxy with the shipped configuration in front of one gateway and returns its address.
func balancer(t *testing.T, gateway string) (address string) {
	t.Helper()
	address = testkit.FreeAddress(t)
	config := strings.NewReplacer(
		"bind :8080", "bind "+address,
		"default-server check port 9090 inter 1s fall 1 rise 1 resolvers docker init-addr none\n", "",
		"server-template gateway 10 gateway:8080", "server gateway "+gateway,
	).Replace(read(t, composeDir+"/balancer/haproxy.cfg"))
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, path, config)
	testkit.Start(t, exec.Command(testkit.Find(t, "haproxy"), "-db", "-f", path)).MayFail() // its exit code is not 0
	return address
}

// The gateways trust the load balancer's network, on which are no other services.
func TestGatewaysTrustTheNetworkOfTheBalancerOnly(t *testing.T) {
	project := compose(t)
	var trusted []string
	for _, pool := range project.Networks["front"].Ipam.Config {
		trusted = append(trusted, pool.Subnet)
	}
	if line := "\ntrusted_proxies: [" + strings.Join(trusted, ", ") + "]\n"; !strings.Contains(read(t, composeDir+"/gateway/opsgate.yaml"), line) {
		t.Errorf("the network is %q, and the configuration of the gateways has no line %q", trusted, line)
	}
	var members []string
	for name, service := range project.Services {
		if _, member := service.Networks["front"]; member {
			members = append(members, name)
		}
	}
	if slices.Sort(members); !slices.Equal(members, []string{"balancer", "gateway"}) {
		t.Errorf("on the network are %q", members)
	}
}
