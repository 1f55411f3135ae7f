package gateway_test

import (
	"os"
	"testing"

	"opsgate/backendclient"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog() // its lines about each connection hide failures
	os.Exit(m.Run())
}
