package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// Log is the level, format and sampling of the log.
type Log struct {
	Level  Level  `yaml:"level" doc:"Lowest level that is logged."`
	Format Format `yaml:"format" restart:"made at start" doc:"A JSON object per line, or key=value text."`
	Access bool   `yaml:"access" doc:"Log each request; else only failures of the gateway or a service."`

	AccessSample Percent `yaml:"access_sample" min:"0%" max:"100%" doc:"Fraction of successful requests that log.access logs."`
}

func defaultLog() Log {
	return Log{Level: LevelInfo, Format: FormatJSON, Access: true, AccessSample: whole}
}

// A Level is the lowest level of lines that are logged.
type Level string

// Values of Level.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// Slog returns the level for slog.
func (l Level) Slog() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // cannot fail: all choices are levels of slog
	return level
}

// A Format is the format of log lines.
type Format string

// Values of Format.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

func (Format) choices() []string { return []string{string(FormatJSON), string(FormatText)} }

// Tracing is the sampling and export of traces.
type Tracing struct {
	Endpoint    string      `yaml:"endpoint" restart:"made at start" doc:"http://host:4318, grpcs://host:4317; else OTEL_EXPORTER_OTLP_*."`
	Headers     Secret      `yaml:"headers" restart:"connected at start" doc:"name=value,… for the collector, as ${NAME} or ${file:PATH}."`
	TLS         TracingTLS  `yaml:"tls" restart:"connected at start" doc:"TLS to the collector."`
	Sample      Percent     `yaml:"sample" min:"0%" max:"100%" doc:"Fraction of requests that are recorded, unless a trusted caller decided."`
	TrustParent ParentTrust `yaml:"trust_parent" doc:"Callers whose traceparent is used: never, those in trusted_proxies, or always."`
}

// TracingTLS is the TLS of connections to a collector with https or grpcs.
type TracingTLS struct {
	CAFile   File `yaml:"ca_file" doc:"Roots of the collector's certificate; by default those of the system."`
	CertFile File `yaml:"cert_file" doc:"The gateway's client certificate, if the collector requires one."`
	KeyFile  File `yaml:"key_file" doc:"Key of cert_file."`
}

// A ParentTrust selects the callers whose traces are continued.
type ParentTrust string

// Values of ParentTrust.
const (
	TrustNever   ParentTrust = "never"
	TrustProxies ParentTrust = "proxies"
	TrustAlways  ParentTrust = "always"
)

func (ParentTrust) choices() []string {
	return []string{string(TrustNever), string(TrustProxies), string(TrustAlways)}
}

func defaultTracing() Tracing { return Tracing{Sample: percent, TrustParent: TrustProxies} }

// HeaderValues returns the headers by name. Its errors do not contain the headers.
func (t Tracing) HeaderValues() (map[string]string, error) {
	text := t.Headers.Reveal()
	if text == "" {
		return nil, nil
	}
	headers := make(map[string]string)
	for field := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(field, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || name == "" || err != nil {
			return nil, fmt.Errorf("must be name=value,name=value, percent-encoded; field %d is not", len(headers)+1)
		}
		headers[name] = value
	}
	return headers, nil
}

// tracing checks the endpoint and the keys that depend on it.
func (v *validator) tracing() {
	c := v.loaded.Tracing
	if _, err := c.HeaderValues(); err != nil {
		v.refuse("tracing.headers", "%v", err)
	}
	v.pair("tracing.tls", c.TLS.CertFile, c.TLS.KeyFile)
	if c.Endpoint == "" {
		return
	}
	endpoint, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || endpoint.Host == "" ||
		!slices.Contains([]string{"http", "https", "grpc", "grpcs"}, endpoint.Scheme):
		v.refuse("tracing.endpoint", "must be http://host:port or grpc://host:port, with https or grpcs for TLS")
	case endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Fragment != "":
		v.refuse("tracing.endpoint", "must not have a user, query or fragment: put credentials into tracing.headers")
	case strings.HasPrefix(endpoint.Scheme, "grpc") && endpoint.Port() == "":
		v.refuse("tracing.endpoint", "needs a port with %s, for example 4317", endpoint.Scheme)
	case strings.HasPrefix(endpoint.Scheme, "grpc") && endpoint.Path != "":
		v.refuse("tracing.endpoint", "must not have a path with %s", endpoint.Scheme)
	case !strings.HasSuffix(endpoint.Scheme, "s") && c.TLS != (TracingTLS{}):
		v.refuse("tracing.endpoint", "begins with %s, and keys of tracing.tls are given: connections would not be encrypted",
			endpoint.Scheme)
	}
}

// tracing warns if all clients are trusted or credentials are sent in plaintext.
func (w *warner) tracing() {
	c := w.loaded.Tracing
	if c.TrustParent == TrustAlways {
		w.warn("tracing.trust_parent",
			"is always: any client can make the gateway record all of its requests, with ids of its choice")
	}
	if c.Endpoint == "" && (c.Headers.Reveal() != "" || c.TLS != (TracingTLS{})) {
		w.warn("tracing.endpoint", "is empty: tracing.headers and tracing.tls have no effect")
		return
	}
	endpoint, err := url.Parse(c.Endpoint)
	if err == nil && c.Headers.Reveal() != "" && !strings.HasSuffix(endpoint.Scheme, "s") &&
		!IsLoopback(endpoint.Hostname()) {
		w.warn("tracing.headers", "go over the network in plaintext: use %ss in tracing.endpoint", endpoint.Scheme)
	}
}
