package backendclient_test

import (
	"testing"

	"opsgate/backendclient"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog()
	testkit.SetDeadProxies() // see TestConnectionsUseNoProxy
	testkit.VerifyTestMain(m)
}
