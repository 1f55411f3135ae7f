// Package ops is the Go client that oapi-codegen generates. Its code is not committed: the tests of
// cmd/internal/test/clients generate it and add it by the flag -overlay of the go command.
package ops

import (
	_ "github.com/oapi-codegen/runtime" // used by the generated code
)
