package testkit

import "os"

// SetDeadProxies sets the variables by which HTTP clients find a proxy to an address where nothing
// listens. net/http reads them once in a process, so TestMain calls this. No client uses a proxy
// for loopback addresses; [ThisHost] is not one.
func SetDeadProxies() {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		_ = os.Unsetenv(name)
	}
}

// ThisHost is an address of this machine that is not a loopback address: one listens on and
// connects to it.
const ThisHost = "0.0.0.0"
