package backendclient

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"opsgate/backendclient/breaker"
)

// Settings can be changed at any time; see [Clients.Apply].
type Settings struct {
	// MaxResponseBytes is the maximum size of a response message.
	MaxResponseBytes int
	// MaxInFlight is the maximum number of calls to one service in flight. Further calls fail at
	// once with Unavailable and ReasonOverloaded.
	MaxInFlight int
	// Retries applies to reads, and to writes with an idempotency key, that fail with Unavailable.
	Retries RetrySettings
	// Breaker configures the circuit breaker of each method.
	Breaker breaker.Settings
}

// RetrySettings limit retries.
type RetrySettings struct {
	// Max is the maximum number of retries of a call, 0 to 5.
	Max int
	// Budget is the ratio of retries to calls that do not end as Unavailable, 0 to 1, in addition
	// to a burst of ten.
	Budget float64
}

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	return Settings{
		MaxResponseBytes: 8 << 20,
		MaxInFlight:      512,
		Retries:          RetrySettings{Max: 2, Budget: 0.1},
		Breaker: breaker.Settings{Window: 20 * time.Second, MinRequests: 10, FailureRate: 0.5,
			OpenFor: 3 * time.Second},
	}
}

// Validate returns an error if the settings cannot be applied.
func (s Settings) Validate() error {
	switch {
	case s.MaxResponseBytes <= 0:
		return fmt.Errorf("maximum response size is %d bytes: must be greater than 0", s.MaxResponseBytes)
	case s.MaxInFlight <= 0:
		return fmt.Errorf("maximum number of calls in flight is %d: must be greater than 0", s.MaxInFlight)
	case s.Retries.Max < 0 || s.Retries.Max > maxRetries:
		return fmt.Errorf("maximum number of retries is %d: must be 0 to %d", s.Retries.Max, maxRetries)
	case !(s.Retries.Budget >= 0 && s.Retries.Budget <= 1): // true for NaN too
		return fmt.Errorf("retry budget is %v: must be 0 to 1", s.Retries.Budget)
	}
	return s.Breaker.Validate()
}

// settings are the Settings in use, with the options of calls that follow from them.
type settings struct {
	Settings

	// options are the options of a call by a generated client: grpc.StaticMethod, the maximum
	// response size and the codec.
	options []grpc.CallOption
}

func newSettings(s Settings) *settings {
	return &settings{Settings: s, options: []grpc.CallOption{
		grpc.StaticMethod(), grpc.MaxCallRecvMsgSize(s.MaxResponseBytes), grpc.ForceCodecV2(newCodec()),
	}}
}

// callOptions adds the maximum response size and the codec to the options of a call. It does not
// allocate for a call by a generated client, whose only option is grpc.StaticMethod.
func (s *settings) callOptions(options []grpc.CallOption) []grpc.CallOption {
	if len(options) == 1 && options[0] == s.options[0] {
		return s.options
	}
	return append(slices.Clip(options), s.options[1:]...)
}
