package config

//go:generate go test -count=1 -run IsCurrent -update

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"opsgate/gateway/openapi"
)

// A Config is the whole configuration of a gateway. Tags: doc is the description; min and max are
// the range, in the notation of the value; chars is the maximum length of a text; restart is the
// reason why a change of the key, or of a key under it, needs a restart, or "-" if the change needs
// no restart; of is "gateway" if the value may differ between gateways with the same configuration,
// as every File may.
type Config struct {
	Listen          string    `yaml:"listen" of:"gateway" restart:"opened at start" doc:"Address of the public API, :8080 behind a load balancer. Port 0 picks a free one."`
	PublicURL       string    `yaml:"public_url" doc:"Base URL of the API in its documentation; by default that of each page."`
	SecurityContact string    `yaml:"security_contact" chars:"255" doc:"URI for reports of vulnerabilities, in security.txt."`
	Admin           Admin     `yaml:"admin" restart:"opened at start" doc:"The listener for operators, which must not be public."`
	TokenPrefix     string    `yaml:"token_prefix" restart:"tokens in use would fail" doc:"Prefix of API tokens, before live_."`
	TrustedProxies  []Network `yaml:"trusted_proxies" doc:"Networks of proxies whose X-Forwarded-For is trusted."`

	TLS           TLS           `yaml:"tls" restart:"opened at start" doc:"TLS of the public listener; none without cert_file."`
	HTTP          HTTP          `yaml:"http" doc:"Limits of the public listener."`
	Routes        Routes        `yaml:"routes" doc:"Limits of single operations by operation id; they replace those of http."`
	Authn         Authn         `yaml:"authn" doc:"The cache of tokens and lookups by the identity service."`
	RateLimit     RateLimit     `yaml:"rate_limit" doc:"The rate limits of each token."`
	Upstreams     Upstreams     `yaml:"upstreams" doc:"Addresses of the internal services; all are required. One process may have several."`
	UpstreamCalls UpstreamCalls `yaml:"upstream_calls" doc:"Limits of calls to the internal services."`
	Shutdown      Shutdown      `yaml:"shutdown" doc:"The drain after SIGTERM. SIGKILL must follow later than both times together."`
	Log           Log           `yaml:"log" doc:"Log lines, which go to standard error."`
	Tracing       Tracing       `yaml:"tracing" doc:"Traces of requests, for OpenTelemetry."`
}

// Default returns the configuration of an empty file. It is not complete: the internal services
// have no default addresses.
func Default() Config {
	return Config{
		Listen:      "127.0.0.1:8080",
		Admin:       Admin{Listen: "127.0.0.1:9090"},
		TokenPrefix: "ops_",
		HTTP: HTTP{
			ReadHeaderTimeout: seconds(5),
			BodyTimeout:       seconds(5),
			WriteTimeout:      seconds(30),
			IdleTimeout:       seconds(120),
			RequestTimeout:    seconds(10),
			MaxHeaderBytes:    16 * kibi,
			MaxBodyBytes:      128 * kibi,
			MaxConnections:    Auto,
			MaxInFlight:       1024,
		},
		Authn:         defaultAuthn(),
		RateLimit:     defaultRateLimit(),
		UpstreamCalls: defaultUpstreamCalls(),
		Shutdown:      Shutdown{DrainWait: seconds(5), Grace: seconds(20)},
		Log:           defaultLog(),
		Tracing:       defaultTracing(),
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

// TLS is the TLS of the public listener.
type TLS struct {
	CertFile File `yaml:"cert_file" doc:"Certificate chain of the public listener."`
	KeyFile  File `yaml:"key_file" doc:"The certificate's key."`
}

// HTTP is the limits of the public listener, for each client and for all clients.
type HTTP struct {
	ReadHeaderTimeout Duration `yaml:"read_header_timeout" min:"100ms" max:"1m" restart:"set at start" doc:"Time for a header to arrive."`
	BodyTimeout       Duration `yaml:"body_timeout" min:"100ms" max:"10m" doc:"Time for a body to arrive, else 408."`
	WriteTimeout      Duration `yaml:"write_timeout" min:"100ms" max:"10m" restart:"set at start" doc:"Time from header to end of response; more than body_timeout and request_timeout together."`
	IdleTimeout       Duration `yaml:"idle_timeout" min:"1s" max:"1h" restart:"set at start" doc:"How long a connection may be idle; longer than the load balancer's."`
	RequestTimeout    Duration `yaml:"request_timeout" min:"20ms" max:"5m" doc:"Time to answer a request, else 504."`
	MaxHeaderBytes    Bytes    `yaml:"max_header_bytes" min:"4KiB" max:"1MiB" restart:"set at start" doc:"Size of a request line and header."`
	MaxBodyBytes      Bytes    `yaml:"max_body_bytes" min:"1KiB" max:"16MiB" doc:"Maximum size of a request body; 413 above it."`
	MaxConnections    Number   `yaml:"max_connections" min:"10" max:"1000000" doc:"Open connections, or auto; above it an idle one is closed."`
	MaxInFlight       int      `yaml:"max_in_flight" min:"1" max:"1000000" doc:"Requests in flight whose body has arrived; 503 above it."`

	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol" restart:"opened at start" doc:"The PROXY protocol, version 1 or 2."`
}

// ProxyProtocol lists the peers that must send a PROXY protocol header.
type ProxyProtocol struct {
	From []Network `yaml:"from" doc:"Networks of TCP balancers, which must begin each connection with a header; from others it is an error."`
}

// Routes are the limits of single operations by operation id.
type Routes map[string]Route

// A Route has the limits of one operation.
type Route struct {
	Timeout Duration `yaml:"timeout" min:"20ms" max:"5m" doc:"Time to answer a request instead of http.request_timeout."`
}

var operationID = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)

const routesKey = "routes"

func (Routes) names() nameForm {
	return nameForm{pattern: operationID, words: "an operation id, for example v1ListServers"}
}

// operations returns the ids of all operations in the OpenAPI document.
func operations() []string {
	var ids []string
	for line := range strings.Lines(string(openapi.YAML())) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "operationId: "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// Shutdown is the drain after SIGTERM.
type Shutdown struct {
	DrainWait Duration `yaml:"drain_wait" min:"0s" max:"5m" doc:"Time that /readyz returns 503 before the listener closes."`
	Grace     Duration `yaml:"grace" min:"0s" max:"10m" doc:"Time for requests in flight after drain_wait."`
}

// Admin is the listener for operators.
type Admin struct {
	Listen string `yaml:"listen" of:"gateway" doc:"Address of the admin listener. One that is not loopback needs token or tls.client_ca_file."`
	Token  Secret `yaml:"token" restart:"-" doc:"Token of operators, 16 characters or more. As ${NAME} or ${file:PATH}."`

	MetricsToken Secret `yaml:"metrics_token" restart:"-" doc:"Token for GET /metrics alone, as token but not the same."`

	TLS AdminTLS `yaml:"tls" doc:"TLS of the admin listener; none without cert_file."`
}

// AdminTLS is the TLS of the admin listener.
type AdminTLS struct {
	CertFile     File `yaml:"cert_file" doc:"Certificate chain of the admin listener."`
	KeyFile      File `yaml:"key_file" doc:"The certificate's key."`
	ClientCAFile File `yaml:"client_ca_file" doc:"Roots of client certificates, which are then required."`
}

// adminTokenMin is the minimum length of admin.token and admin.metrics_token.
const adminTokenMin = 16

// admin checks the keys of the admin listener, which outside loopback must require authentication.
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
	if err == nil && !IsLoopback(host) && a.Token.Reveal() == "" && a.TLS.ClientCAFile == "" {
		v.refuse("admin.listen",
			"is %s, not on loopback: set admin.token or admin.tls.client_ca_file, or listen on 127.0.0.1 or localhost", a.Listen)
	}
}

func (v *validator) adminToken(key string, s Secret) {
	switch token := s.Reveal(); {
	case token != "" && len(token) < adminTokenMin:
		v.refuse(key, "has fewer than %d characters", adminTokenMin)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		v.refuse(key, "has a space or another character that no Authorization header can have: only visible ASCII can")
	}
}

// routes checks that the operations exist, and their timeouts.
func (v *validator) routes() {
	c := v.loaded
	if len(c.Routes) == 0 {
		return // skip parsing the OpenAPI document
	}
	known := operations()
	for _, id := range slices.Sorted(maps.Keys(c.Routes)) {
		key := entryKey(routesKey, id)
		if !slices.Contains(known, id) {
			v.refuse(key, "is not an operation of the API%s", suggestionOf(id, known))
			continue
		}
		v.routeTimeout(timeout{join(key, "timeout"), c.Routes[id].Timeout})
	}
}

// exposure warns of listeners and trust that are wider than usual.
func (w *warner) exposure() {
	c := w.loaded
	for key, networks := range map[string][]Network{
		"trusted_proxies": c.TrustedProxies, "http.proxy_protocol.from": c.HTTP.ProxyProtocol.From,
	} {
		for i, network := range networks {
			if network.Bits() == 0 {
				w.warn(fmt.Sprintf("%s[%d]", key, i), "is every address: any client can claim any address in the audit log")
			}
		}
	}
	if host, _, _ := net.SplitHostPort(c.Listen); !IsLoopback(host) && c.TLS.CertFile == "" && len(c.TrustedProxies) == 0 {
		w.warn("listen", "is %s, not on loopback, without TLS: set tls.cert_file and key_file, or trusted_proxies if a "+
			"proxy ends TLS", c.Listen)
	}
	host, _, _ := net.SplitHostPort(c.Admin.Listen) // valid, as checked by the validator
	if !IsLoopback(host) && c.Admin.TLS.CertFile == "" {
		w.warn("admin.token", "goes over the network in plaintext: set admin.tls.cert_file and key_file")
	}
	if c.Authn.StaleFor > maxStaleFor {
		w.warn("authn.stale_for",
			"is %s: a revoked token may be accepted for that time while the identity service is unavailable",
			c.Authn.StaleFor)
	}
}

// shutdown warns of settings that make requests fail at each deployment.
func (w *warner) shutdown() {
	c := w.loaded
	if host, _, _ := net.SplitHostPort(c.Listen); c.Shutdown.DrainWait == 0 && !IsLoopback(host) {
		w.warn("shutdown.drain_wait",
			"is 0s: load balancers have no time to stop sending requests before the listener closes")
	}
	if longest := c.HTTP.BodyTimeout + Duration(c.longestTimeout()); c.Shutdown.Grace < longest {
		w.warn("shutdown.grace", "is %s, less than http.body_timeout and the longest timeout of a request together, %s: "+
			"slow requests are cut off", c.Shutdown.Grace, longest)
	}
}

const maxConnectionsKey = "http.max_connections"

// connectionsText describes the limit that determines the automatic number of connections.
func (l Loaded) connectionsText() string {
	if l.boundByFiles() {
		return fmt.Sprintf("from the limit of %d open files", l.OpenFiles)
	}
	if l.MemoryLimit == 0 {
		return "without a memory limit"
	}
	return "from the memory limit of " + l.limitText()
}

func (l Loaded) limitText() string { return fmt.Sprintf("%d MiB", l.MemoryLimit/int64(mebi)) }

// openFiles warns if the limit of open files is too low for the connections.
func (w *warner) openFiles() {
	switch l := w.loaded; {
	case l.OpenFiles == 0:
	case l.HTTP.MaxConnections != Auto && int64(l.HTTP.MaxConnections) > l.ConnectionFiles():
		w.warn(maxConnectionsKey, "is %d: of the limit of %d open files (ulimit -n, LimitNOFILE) connections may use %d; "+
			"past it none is accepted",
			l.HTTP.MaxConnections, l.OpenFiles, l.ConnectionFiles())
	case l.HTTP.MaxConnections == Auto && l.boundByFiles():
		w.warn(maxConnectionsKey,
			"is auto, and only %d by the limit of %d open files (ulimit -n, LimitNOFILE); memory is enough for %d",
			l.fittingConnections(), l.OpenFiles, l.connectionsInMemory())
	}
}

// memory warns if connections or bodies can need more than their part of the memory limit.
func (w *warner) memory() {
	l := w.loaded
	if l.MemoryLimit == 0 {
		return
	}
	if need := int64(l.HTTP.MaxInFlight) * int64(l.HTTP.MaxBodyBytes); need > l.MemoryLimit {
		w.warn("http.max_body_bytes",
			"is %s, and http.max_in_flight (%d) such bodies need %d MiB: of the memory limit of %s bodies may use "+
				"%d MiB, one team half of that; further ones wait, and get 408 after http.body_timeout",
			l.HTTP.MaxBodyBytes, l.HTTP.MaxInFlight, need/int64(mebi), l.limitText(), l.MaxBodies()/int64(mebi))
	}
	need := int64(l.HTTP.MaxConnections) * WorstConnection
	if room := l.ConnectionMemory(); l.HTTP.MaxConnections != Auto && need > room {
		w.warn(maxConnectionsKey,
			"is %d, which can need %d MiB: of the memory limit of %s connections may use %d MiB; auto is %d here",
			l.HTTP.MaxConnections, need/int64(mebi), l.limitText(), room/int64(mebi), l.fittingConnections())
	}
}
