package config

import "time"

// A Config is the whole configuration of a gateway. Tags: doc is the description; min and max are the range, in the notation of the value;
// chars is the maximum length of a text; restart is the reason why a change of the key, or of a key under it, needs a restart, or "-" if
// it needs none; of is "gateway" if gateways with the same configuration may have other values, as for every File.
type Config struct {
	Listen          string    `yaml:"listen" of:"gateway" restart:"opened at start" doc:"Address of the public API. Port 0 picks a free one."`
	PublicURL       string    `yaml:"public_url" doc:"Base URL of the API in its documentation; by default that of each request."`
	SecurityContact string    `yaml:"security_contact" chars:"255" doc:"URI for reports of vulnerabilities, in security.txt; none by default."`
	Admin           Admin     `yaml:"admin" restart:"opened at start" doc:"The listener for operators, which must not be public."`
	TokenPrefix     string    `yaml:"token_prefix" restart:"tokens in use would fail" doc:"Prefix of API tokens, before live_."`
	TrustedProxies  []Network `yaml:"trusted_proxies" doc:"Networks of proxies whose X-Forwarded-For is trusted."`

	TLS           TLS           `yaml:"tls" restart:"opened at start" doc:"TLS of the public listener; none without cert_file."`
	HTTP          HTTP          `yaml:"http" doc:"Limits of the public listener."`
	Routes        Routes        `yaml:"routes" doc:"Limits of single operations by operation id; they replace those of http."`
	Authn         Authn         `yaml:"authn" doc:"The cache of tokens and lookups by the identity service."`
	RateLimit     RateLimit     `yaml:"rate_limit" doc:"The rate limits of each token."`
	Upstreams     Upstreams     `yaml:"upstreams" doc:"Addresses of the internal services; all are required."`
	UpstreamCalls UpstreamCalls `yaml:"upstream_calls" doc:"Limits of calls to the internal services."`
	Shutdown      Shutdown      `yaml:"shutdown" doc:"The drain after SIGTERM."`
	Log           Log           `yaml:"log" doc:"Log lines, which go to standard error."`
	Tracing       Tracing       `yaml:"tracing" doc:"Traces of requests, for OpenTelemetry."`
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
			LookupTimeout: seconds(2),
			MaxLookups:    64,
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
