package config

import "time"

// A Config is the whole configuration of a gateway. Tags: doc is the description; min and max are the range, in the notation of the value;
// chars is the maximum length of a text; restart is the reason why a change of the key, or of a key under it, needs a restart, or "-" if
// it needs none.
type Config struct {
	Listen         string    `yaml:"listen" restart:"opened at start" doc:"Address of the public API. Port 0 selects a free port."`
	PublicURL      string    `yaml:"public_url" doc:"Base URL of the API in its documentation; by default that of each request."`
	Admin          Admin     `yaml:"admin" restart:"opened at start" doc:"The listener for operators, which must not be public."`
	TokenPrefix    string    `yaml:"token_prefix" restart:"tokens in use would fail" doc:"Prefix of API tokens, before live_."`
	TrustedProxies []Network `yaml:"trusted_proxies" doc:"Networks of proxies whose X-Forwarded-For is trusted."`

	TLS           TLS           `yaml:"tls" restart:"opened at start" doc:"TLS of the public listener; none without cert_file."`
	HTTP          HTTP          `yaml:"http" doc:"Limits of the public listener."`
	Routes        Routes        `yaml:"routes" doc:"Limits of single operations by operation id; they replace those of http."`
	Authn         Authn         `yaml:"authn" doc:"The cache of tokens and look-ups by the identity service."`
	RateLimit     RateLimit     `yaml:"rate_limit" doc:"The rate limits of each token."`
	Upstreams     Upstreams     `yaml:"upstreams" doc:"Addresses of the internal services; all are required."`
	UpstreamCalls UpstreamCalls `yaml:"upstream_calls" doc:"Limits of calls to the internal services."`
	Shutdown      Shutdown      `yaml:"shutdown" doc:"The drain after SIGTERM."`
	Log           Log           `yaml:"log" doc:"Log lines, which go to standard error."`
	Tracing       Tracing       `yaml:"tracing" doc:"Traces of requests, for OpenTelemetry."`
}

// Admin is the listener for operators.
type Admin struct {
	Listen string `yaml:"listen" doc:"Address of the admin listener. One that is not loopback needs token or tls.client_ca_file."`
	Token  Secret `yaml:"token" restart:"-" doc:"Token of operators, 16 characters or more; none by default. As ${NAME} or ${file:PATH}."`

	MetricsToken Secret `yaml:"metrics_token" restart:"-" doc:"Token for GET /metrics alone, as token but not the same; none by default."`

	TLS AdminTLS `yaml:"tls" doc:"TLS of the admin listener; none without cert_file."`
}

// AdminTLS is the TLS of the admin listener.
type AdminTLS struct {
	CertFile     File `yaml:"cert_file" doc:"Certificate chain of the admin listener, in PEM."`
	KeyFile      File `yaml:"key_file" doc:"The certificate's key, in PEM."`
	ClientCAFile File `yaml:"client_ca_file" doc:"Roots of client certificates, which are then required; none by default."`
}

// TLS is the TLS of the public listener.
type TLS struct {
	CertFile File `yaml:"cert_file" doc:"Certificate chain of the public listener, in PEM."`
	KeyFile  File `yaml:"key_file" doc:"The certificate's key, in PEM."`
}

// HTTP is the limits of the public listener, for each client and for all clients.
type HTTP struct {
	ReadHeaderTimeout Duration `yaml:"read_header_timeout" min:"100ms" max:"1m" restart:"set at start" doc:"Time for a header to arrive."`
	BodyTimeout       Duration `yaml:"body_timeout" min:"100ms" max:"10m" doc:"Time for a body to arrive, else 408."`
	WriteTimeout      Duration `yaml:"write_timeout" min:"100ms" max:"10m" restart:"set at start" doc:"Time from header to end of response."`
	IdleTimeout       Duration `yaml:"idle_timeout" min:"1s" max:"1h" restart:"set at start" doc:"How long a connection may be idle."`
	RequestTimeout    Duration `yaml:"request_timeout" min:"20ms" max:"5m" doc:"Time to answer a request, else 504."`
	MaxHeaderBytes    Bytes    `yaml:"max_header_bytes" min:"4KiB" max:"1MiB" restart:"set at start" doc:"Size of a request line and header."`
	MaxBodyBytes      Bytes    `yaml:"max_body_bytes" min:"1KiB" max:"16MiB" doc:"Maximum size of a request body; 413 above it."`
	MaxConnections    Number   `yaml:"max_connections" min:"10" max:"1000000" doc:"Open connections, or auto; above it an idle one is closed."`
	MaxInFlight       int      `yaml:"max_in_flight" min:"1" max:"1000000" doc:"Maximum of requests in flight; 503 above it."`
}

// Authn is the cache of tokens and its look-ups.
type Authn struct {
	FreshFor      Duration `yaml:"fresh_for" min:"1s" max:"1h" doc:"Time that a confirmed token is used without a new look-up."`
	StaleFor      Duration `yaml:"stale_for" min:"1s" max:"24h" doc:"The same while the identity service is unavailable."`
	LookUpTimeout Duration `yaml:"look_up_timeout" min:"10ms" max:"1m" doc:"Time for the identity service to respond."`
	MaxLookUps    int      `yaml:"max_look_ups" min:"1" max:"100000" doc:"Concurrent look-ups of unknown tokens; others wait by network."`
	MaxEntries    int      `yaml:"max_entries" min:"100" max:"10000000" restart:"sized at start" doc:"Maximum tokens, of 400 bytes each."`
}

// Shutdown is the drain after SIGTERM.
type Shutdown struct {
	DrainWait Duration `yaml:"drain_wait" min:"0s" max:"5m" doc:"Time that /readyz returns 503 before the listener closes."`
	Grace     Duration `yaml:"grace" min:"0s" max:"10m" doc:"Time for requests in flight after drain_wait."`
}

// Log is the level, format and sampling of the log.
type Log struct {
	Level  Level  `yaml:"level" doc:"Lowest level that is logged."`
	Format Format `yaml:"format" restart:"made at start" doc:"A JSON object per line, or key=value text."`
	Access bool   `yaml:"access" doc:"Log each request; else only failures of the gateway or a service."`

	AccessSample Percent `yaml:"access_sample" min:"0%" max:"100%" doc:"Fraction of successful requests that log.access logs."`
}

// Default returns the configuration of an empty file. It is not complete: the internal services have no default addresses.
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
		Authn: Authn{
			FreshFor:      seconds(30),
			StaleFor:      seconds(600),
			LookUpTimeout: seconds(2),
			MaxLookUps:    64,
			MaxEntries:    100_000,
		},
		RateLimit:     defaultRateLimit(),
		UpstreamCalls: defaultUpstreamCalls(),
		Shutdown:      Shutdown{DrainWait: seconds(5), Grace: seconds(20)},
		Log:           Log{Level: LevelInfo, Format: FormatJSON, Access: true, AccessSample: whole},
		Tracing:       defaultTracing(),
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
