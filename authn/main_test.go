package authn_test

import (
	"testing"

	"opsgate/backendclient/testkit"
)

func TestMain(m *testing.M) {
	testkit.VerifyTestMain(m)
}
