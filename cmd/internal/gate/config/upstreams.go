package config

// Upstreams are the addresses of the internal services.
type Upstreams struct {
	Fleet      Upstream `yaml:"fleet" doc:"Servers, groups, metrics and commands."`
	Monitoring Upstream `yaml:"monitoring" doc:"Monitors and their checks."`
	Incident   Upstream `yaml:"incident" doc:"Incidents and status pages."`
	Audit      Upstream `yaml:"audit" doc:"The audit log."`
	Identity   Upstream `yaml:"identity" doc:"Tokens."`
}

// An Upstream is the address of an internal service.
type Upstream struct {
	Address string    `yaml:"address" doc:"gRPC target: dns:///fleet.internal:9000, or a list static:///a:9000,b:9000."`
	TLS     ClientTLS `yaml:"tls" doc:"TLS to the service. Its files are read again for each connection."`
}

// ClientTLS is the TLS of connections that the gateway makes.
type ClientTLS struct {
	Enabled    bool   `yaml:"enabled" doc:"Whether connections use TLS."`
	CAFile     File   `yaml:"ca_file" doc:"Roots of the server's certificate, in PEM; by default those of the system."`
	CertFile   File   `yaml:"cert_file" doc:"The gateway's client certificate, in PEM, if the server requires one."`
	KeyFile    File   `yaml:"key_file" doc:"Key of cert_file, in PEM."`
	ServerName string `yaml:"server_name" doc:"Name in the server's certificate, if it differs from the address."`
}

// UpstreamCalls limits the calls to internal services.
type UpstreamCalls struct {
	MaxResponseBytes Bytes   `yaml:"max_response_bytes" min:"64KiB" max:"256MiB" doc:"Maximum size of a response."`
	MaxInFlight      int     `yaml:"max_in_flight" min:"1" max:"100000" doc:"Maximum of calls in flight to one service; 503 above it."`
	Breaker          Breaker `yaml:"breaker" doc:"Circuit breaker of each service. A change closes all breakers."`
	Retries          Retries `yaml:"retries" doc:"Retries of reads, and of writes with an idempotency key, if a service is unavailable."`
}

// Breaker configures the circuit breaker of each service.
type Breaker struct {
	MinRequests int      `yaml:"min_requests" min:"1" max:"100000" doc:"Minimum number of calls before a breaker can open."`
	FailureRate Percent  `yaml:"failure_rate" min:"1%" max:"100%" doc:"Fraction of failed calls at which a breaker opens."`
	OpenFor     Duration `yaml:"open_for" min:"500ms" max:"5m" doc:"How long an open breaker rejects calls."`
}

// Retries limits the retries of calls.
type Retries struct {
	Max    int     `yaml:"max" min:"0" max:"5" doc:"Maximum number of retries of one call."`
	Budget Percent `yaml:"budget" min:"0%" max:"100%" doc:"Fraction of calls that may be retried, in addition to ten."`
}

func defaultUpstreamCalls() UpstreamCalls {
	return UpstreamCalls{
		MaxResponseBytes: 8 * mebi,
		MaxInFlight:      512,
		Breaker:          Breaker{MinRequests: 10, FailureRate: 50 * percent, OpenFor: seconds(3)},
		Retries:          Retries{Max: 2, Budget: 10 * percent},
	}
}
