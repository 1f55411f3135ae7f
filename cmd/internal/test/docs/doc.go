// Package docs runs what the documentation of the API shows against opsdev: the samples of each
// operation in each language, the recorded responses, and the programs of the guides. It is outside
// the gateway, because packages of the gateway must not import opsdev.
//
//	go test ./cmd/internal/test/docs -update
//
// records the responses again.
package docs
