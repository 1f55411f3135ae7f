// Package ops is the Go client that oapi-codegen generates. Its code is not committed: the test of opsgate/tools/clients generates it and
// adds it by the flag -overlay of the go command.
package ops

import (
	_ "github.com/oapi-codegen/runtime" // used by the generated code
)
