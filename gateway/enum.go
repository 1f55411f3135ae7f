package gateway

import (
	"fmt"

	"opsgate/gateway/decode"
	"opsgate/gateway/jsonw"
)

type enumValue[T any] struct {
	name  string
	value T
}

func names[T any](values []enumValue[T]) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.name
	}
	return all
}

func requiredEnum[T any](b *decode.Body, field string, values []enumValue[T]) (value T) {
	if i := b.OneOf(field, names(values)); i >= 0 {
		value = values[i].value
	}
	return value
}

// optionalEnum returns the value of a query parameter, or def if it is absent.
func optionalEnum[T any](q *decode.Query, parameter string, values []enumValue[T], def T) T {
	if i := q.OneOf(parameter, names(values)); i >= 0 {
		return values[i].value
	}
	return def
}

// writeEnum writes the name of a value. A value without a name violates the contract with the
// service, and fails the view.
func writeEnum[T comparable](w *jsonw.Writer, name string, values []enumValue[T], value T) {
	for _, v := range values {
		if v.value == value {
			w.String(name, v.name)
			return
		}
	}
	w.Fail(name, fmt.Sprintf("%v is no value of the enum", value))
}
