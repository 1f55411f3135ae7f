package conformance

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// resultText returns the code, message and invalid fields of the end of a call.
func resultText(err error) string {
	text := codeName(status.Code(err))
	if message := status.Convert(err).Message(); message != "" {
		text += fmt.Sprintf(" %q", message)
	}
	if fields := fieldsOf(err); len(fields) > 0 {
		text += " naming " + strings.Join(fields, ", ")
	}
	return text
}

// fullResultText returns how a call ended with all details of the error.
func fullResultText(err error) string {
	parts := []string{resultText(err)}
	for _, detail := range detailsOf[any](err) {
		parts = append(parts, fmt.Sprintf("detail {%v}", detail))
	}
	return strings.Join(parts, ", ")
}

// codeName returns the name of a code in the contract, such as NOT_FOUND.
func codeName(c codes.Code) string { return code.Code(c).String() }

// expectCode returns a breach if a call did not end with the code. The parameter what describes the call in the breach.
func expectCode(want codes.Code, err error, what string) error {
	if status.Code(err) == want {
		return nil
	}
	return expected(codeName(want)+" for "+what, "%s", resultText(err))
}

// expectViolations returns a breach if a call did not end with INVALID_ARGUMENT and exactly one violation for each of the fields, with a
// description.
func expectViolations(err error, what string, fields ...string) error {
	slices.Sort(fields)
	want := "INVALID_ARGUMENT naming " + strings.Join(fields, ", ") + " for " + what
	if status.Code(err) != codes.InvalidArgument || !slices.Equal(fieldsOf(err), fields) {
		return expected(want, "%s", resultText(err))
	}
	for _, v := range violationsOf(err) {
		if v.GetDescription() == "" {
			return expected(want+", with a description", "no description of %s", v.GetField())
		}
	}
	return nil
}

func violationsOf(err error) (list []*errdetails.BadRequest_FieldViolation) {
	for _, bad := range detailsOf[*errdetails.BadRequest](err) {
		list = append(list, bad.GetFieldViolations()...)
	}
	return list
}

// fieldsOf returns the fields that an error names, sorted.
func fieldsOf(err error) (fields []string) {
	for _, v := range violationsOf(err) {
		fields = append(fields, v.GetField())
	}
	slices.Sort(fields)
	return fields
}

// detailsOf returns the details of one type.
func detailsOf[D any](err error) (list []D) {
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(D); ok {
			list = append(list, d)
		}
	}
	return list
}

// infoOf returns the ErrorInfo of an error, or nil.
func infoOf(err error) *errdetails.ErrorInfo {
	if infos := detailsOf[*errdetails.ErrorInfo](err); len(infos) > 0 {
		return infos[0]
	}
	return nil
}
