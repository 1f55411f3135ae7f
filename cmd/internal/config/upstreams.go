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
	Address string    `yaml:"address" doc:"gRPC target, such as dns:///fleet.internal:9000."`
	TLS     ClientTLS `yaml:"tls" doc:"TLS to the service. Its files are read again for each connection."`
}

// ClientTLS is the TLS of connections that the gateway makes.
type ClientTLS struct {
	Enabled    bool   `yaml:"enabled" doc:"Whether to speak TLS."`
	CAFile     File   `yaml:"ca_file" doc:"Roots of the server's certificate, in PEM; those of the system without it."`
	CertFile   File   `yaml:"cert_file" doc:"The gateway's own certificate, in PEM, where the server asks for one."`
	KeyFile    File   `yaml:"key_file" doc:"Its key, in PEM."`
	ServerName string `yaml:"server_name" doc:"Name in the server's certificate, where it is not that of the address."`
}

// UpstreamCalls limits the calls to internal services.
type UpstreamCalls struct {
	MaxResponseBytes Bytes   `yaml:"max_response_bytes" min:"64KiB" max:"256MiB" doc:"Size of an answer."`
	MaxInFlight      int     `yaml:"max_in_flight" min:"1" max:"100000" doc:"Calls under way to one service; past it clients get 503."`
	Breaker          Breaker `yaml:"breaker" doc:"When a service that fails is left alone. A change begins with closed breakers."`
	Retries          Retries `yaml:"retries" doc:"Reads, and writes with a key, are tried again when a service is unavailable."`
}

// Breaker configures the circuit breaker of each service.
type Breaker struct {
	MinRequests int      `yaml:"min_requests" min:"1" max:"100000" doc:"How many calls it takes to judge."`
	FailureRate Percent  `yaml:"failure_rate" min:"1%" max:"100%" doc:"Part of failed calls that opens it."`
	OpenFor     Duration `yaml:"open_for" min:"500ms" max:"5m" doc:"How long no calls are made then."`
}

// Retries limits the retries of calls.
type Retries struct {
	Max    int     `yaml:"max" min:"0" max:"5" doc:"How often one call is tried again."`
	Budget Percent `yaml:"budget" min:"0%" max:"100%" doc:"Part of calls that may be tried again, beyond ten."`
}

func defaultUpstreamCalls() UpstreamCalls {
	return UpstreamCalls{
		MaxResponseBytes: 8 * mebi,
		MaxInFlight:      512,
		Breaker:          Breaker{MinRequests: 10, FailureRate: 50 * percent, OpenFor: seconds(3)},
		Retries:          Retries{Max: 2, Budget: 10 * percent},
	}
}
