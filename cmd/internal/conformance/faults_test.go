package conformance_test

import "testing"

type state struct{}

func newState(*testing.T) *state { return &state{} }
