package backendclient_test

import (
	"testing"

	"go.uber.org/goleak"

	"opsgate/backendclient"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog()
	goleak.VerifyTestMain(m)
}
