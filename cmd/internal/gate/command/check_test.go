package command_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/grpctest"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestCheckFindsWhatServeWouldRefuse(t *testing.T) {
	authority := certstest.NewAuthority(t, "root")
	own, other := authority.Server(t, 1), authority.Server(t, 2)
	expired, soon := authority.Valid(t, 3, time.Time{}, time.Now().Add(-time.Hour)), authority.Valid(t, 4, time.Time{}, time.Now().Add(5*24*time.Hour))
	early := authority.Valid(t, 5, time.Now().Add(time.Hour), time.Now().Add(99*24*time.Hour))
	paths := certstest.Write(t, own.Certificate, own.Key, other.Key, expired.Certificate, expired.Key, soon.Certificate, soon.Key, []byte("x"))
	paths = append(paths, certstest.Write(t, early.Certificate, early.Key)...)
	certificate, key, otherKey, text := paths[0], paths[1], paths[2], paths[7]
	for _, test := range []struct {
		name, more string
		code       int
		want       string // the file is put for FILE
	}{
		{"a key that does not fit", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", certificate, otherKey), 1,
			"FILE:10: tls.key_file: does not fit cert_file: tls: private key does not match public key\n"},
		{"a certificate that is none", fmt.Sprintf("admin: {listen: 127.0.0.1:0, tls: {cert_file: %s, key_file: %s}}", text, key), 1,
			"FILE:10: admin.tls.cert_file: names a file without a certificate\n"},
		{"a key that is none", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", certificate, text), 1, "FILE:10: tls.key_file: does not fit cert_file: tls: failed"},
		{"roots that are none", fmt.Sprintf("rate_limit: {redis: {tls: {enabled: true, ca_file: %s}}}", key), 1,
			"FILE:10: rate_limit.redis.tls.ca_file: names a file without a certificate\n"},
		{"an expired certificate", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", paths[3], paths[4]), 1, "FILE:10: tls.cert_file: has expired, at 2"},
		{"a certificate of tomorrow", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", paths[8], paths[9]), 1,
			"FILE:10: tls.cert_file: is not valid before 2"},
		{"a certificate of 5 days", fmt.Sprintf("tls: {cert_file: %s, key_file: %s}", paths[5], paths[6]), 0, "warning: FILE:10: tls.cert_file: expires in 5d, at 2"},
		{"an address of another machine", "listen: 192.0.2.1:80", 1, "FILE:10: listen: binding the address: listen tcp 192.0.2.1:80: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := good // without the key that is set
			for line := range strings.Lines(good) {
				if name, _, _ := strings.Cut(line, ":"); name == strings.SplitN(test.more, ":", 2)[0] {
					base = strings.Replace(good, line, "\n", 1)
				}
			}
			file := write(t, base+test.more+"\n")
			got := opsgate(t, nil, "check", "--config", file)
			if want := strings.ReplaceAll(test.want, "FILE", file); got.code != test.code || !strings.Contains(got.err, want) {
				t.Errorf("got %+v, want %q", got, want)
			}
			if allowed := opsgate(t, nil, "check", "--allow-expired", "--config", file); strings.Contains(test.name, "a certificate of") || strings.Contains(test.name, "expired") {
				if allowed.code != 0 || !strings.Contains(allowed.err, "warning: "+strings.TrimPrefix(strings.ReplaceAll(test.want, "FILE", file), "warning: ")) {
					t.Errorf("--allow-expired: got %+v", allowed)
				}
			} else if allowed.code != 1 {
				t.Errorf("--allow-expired: got %+v", allowed)
			}
			if n := strings.Count(got.err, "\n"); n > 1 && !strings.HasPrefix(test.more, "listen:") {
				t.Errorf("%d lines: %s", n, got.err)
			}
		})
	}
}

func TestCheckWarnsOfAnAddressInUse(t *testing.T) {
	running, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = running.Close() }()
	got := opsgate(t, []string{"OPSGATE_LISTEN=" + running.Addr().String()}, "check", "--config", write(t, good))
	if got.code != 0 || !strings.Contains(got.err, "warning: OPSGATE_LISTEN: listen: binding the address: ") {
		t.Errorf("got %+v", got)
	}
}

func TestCheckLiveReportsAllProblemsIfItCannotBuildTheClients(t *testing.T) {
	file := write(t, good)
	got := opsgate(t, []string{"OPSGATE_LISTEN=192.0.2.1:80", "OPSGATE_UPSTREAMS_AUDIT_ADDRESS=unix:///%zz"}, "check", "--live", "--config", file)
	for _, want := range []string{"listen: binding the address: listen tcp 192.0.2.1:80: ", "dial audit at "} {
		if got.code != 1 || !strings.Contains(got.err, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

func TestCheckLiveNamesWhatDoesNotWork(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	for user, rule := range map[string]string{
		"reader":     "+@all -info ~opsgate:* &none:*",
		"publishing": "+@all -evalsha -eval ~opsgate:* &opsgate:*",
		"lacking":    "+@all -set -pexpire ~opsgate:* &opsgate:*",
	} {
		args := append([]any{"ACL", "SETUSER", user, "on", ">secret-" + user, "resetkeys", "resetchannels"}, anys(strings.Fields(rule))...)
		testkit.Must(t, server.Client().Do(t.Context(), args...).Err())
	}
	// An empty request is invalid in the contract of every service.
	services := serveGRPC(t, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.InvalidArgument, "") }))
	refusing := serveGRPC(t, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "RBAC: access denied")
	}))
	text := strings.Replace(good, "127.0.0.1:1}", services+"}", 1) +
		"rate_limit: {store: redis, redis: {addresses: [\"" + server.Addr() + "\"], timeout: 5s}}\n"
	file := write(t, text)
	for _, test := range []struct {
		name      string
		variables []string
		code      int
		out, err  []string
	}{
		{"all rights", nil, 0, []string{
			"ok: rate_limit.redis: counting requests\n", "ok: rate_limit.redis: counting gateways\n", "ok: rate_limit.redis: subscription to refunds\n",
			"ok: upstreams.fleet.address: connection\n", "ok: upstreams.identity.address: connection\n",
		}, []string{
			"warning: FILE:10: rate_limit.redis: no eviction: its maxmemory-policy evicts keys",
		}},
		{"no channels, no INFO", as("reader"), 1, []string{"ok: rate_limit.redis: counting gateways\n"}, []string{
			"FILE:10: rate_limit.redis: subscription to refunds: NOPERM ", "warning: FILE:10: rate_limit.redis: no eviction: NOPERM ",
			"FILE:10: rate_limit.redis: counting requests: redis: refund: ",
		}},
		{"no scripts", as("publishing"), 1, []string{"ok: rate_limit.redis: subscription to refunds\n"}, []string{
			"FILE:10: rate_limit.redis: counting requests: redis: decide: NOPERM ", "FILE:10: rate_limit.redis: counting gateways: NOPERM ",
		}},
		{"no commands of scripts", as("lacking"), 1, []string{"ok: rate_limit.redis: subscription to refunds\n"}, []string{
			"FILE:10: rate_limit.redis: counting requests: the user lacks +set +pexpire: ",
			"FILE:10: rate_limit.redis: counting gateways: the user lacks +set +pexpire: ",
		}},
		{"a wrong password", []string{"OPSGATE_RATE_LIMIT_REDIS_USERNAME=reader", "OPSGATE_RATE_LIMIT_REDIS_PASSWORD=hunter2"}, 1, nil,
			[]string{"FILE:10: rate_limit.redis: connection: WRONGPASS "}},
		{"another service", []string{"OPSGATE_UPSTREAMS_AUDIT_ADDRESS=" + serveGRPC(t)}, 1, nil, []string{
			"OPSGATE_UPSTREAMS_AUDIT_ADDRESS: upstreams.audit.address: connection: wrong service at this address: ",
		}},
		{"a service that refuses the gateway", []string{"OPSGATE_UPSTREAMS_AUDIT_ADDRESS=" + refusing}, 1, nil, []string{
			"OPSGATE_UPSTREAMS_AUDIT_ADDRESS: upstreams.audit.address: connection: connected, and no answer to a probe: PermissionDenied: ", "RBAC: access denied",
		}},
		{"nothing answers", []string{"OPSGATE_UPSTREAMS_FLEET_ADDRESS=127.0.0.1:1", "OPSGATE_TRACING_ENDPOINT=http://127.0.0.1:1"}, 1, nil, []string{
			"OPSGATE_UPSTREAMS_FLEET_ADDRESS: upstreams.fleet.address: connection: connection refused: ",
			"OPSGATE_TRACING_ENDPOINT: tracing.endpoint: connection: dial tcp 127.0.0.1:1: connect: connection refused",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := opsgate(t, test.variables, "check", "--live", "--config", file)
			testkit.Contains(t, got.out, test.out...)
			for _, want := range test.err {
				if want = strings.ReplaceAll(want, "FILE", file); !strings.Contains(got.err, want) {
					t.Errorf("there is no %q in %s", want, got.err)
				}
			}
			if got.code != test.code || strings.Contains(got.err, "secret-") || strings.Contains(got.err, "hunter2") {
				t.Errorf("got %+v", got)
			}
			if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) > 0 {
				t.Errorf("left in Redis: %q", keys)
			}
		})
	}
}

// The exporter of traces uses the proxies of the environment, as other programs with OpenTelemetry
// do. Connections to the services do not.
func TestCheckLiveConnectsToTheProxyOfTheCollector(t *testing.T) {
	services := serveGRPC(t, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.InvalidArgument, "") }))
	file := write(t, strings.Replace(good, "127.0.0.1:1}", services+"}", 1))
	refused := "OPSGATE_TRACING_ENDPOINT: tracing.endpoint: connection: the proxy of the environment: dial tcp 127.0.0.1:1: connect: connection refused"
	for _, test := range []struct{ endpoint, http, https, want string }{
		{"http://collector.example", services, "127.0.0.1:1", ""},
		{"https://collector.example", "127.0.0.1:1", services, ""},
		{"grpc://collector.example:4317", "127.0.0.1:1", services, ""},
		{"grpcs://collector.example:4317", services, "127.0.0.1:1", refused},
	} {
		t.Setenv("HTTP_PROXY", "http://"+test.http)
		t.Setenv("HTTPS_PROXY", "http://"+test.https)
		got := opsgate(t, []string{"OPSGATE_TRACING_ENDPOINT=" + test.endpoint}, "check", "--live", "--config", file)
		if (got.code == 0) != (test.want == "") || !strings.Contains(got.err, test.want) {
			t.Errorf("%s: got %+v", test.endpoint, got)
		}
	}
}

// serveGRPC starts a server without services, and returns its address.
func serveGRPC(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	server := grpc.NewServer(options...)
	healthv1.RegisterHealthServer(server, health.NewServer())
	grpctest.Serve(t, server, listener)
	return listener.Addr().String()
}

// as returns the variables of a user of Redis.
func as(user string) []string {
	return []string{"OPSGATE_RATE_LIMIT_REDIS_USERNAME=" + user, "OPSGATE_RATE_LIMIT_REDIS_PASSWORD=secret-" + user}
}

func anys(list []string) (all []any) {
	for _, text := range list {
		all = append(all, text)
	}
	return all
}
