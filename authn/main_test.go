package authn_test

import (
	"testing"

	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.VerifyTestMain(m)
}
