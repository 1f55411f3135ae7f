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

// ended says how a call ended.
func ended(err error) string {
	if err == nil {
		return "OK"
	}
	s := status.Convert(err)
	text := codeName(s.Code())
	if s.Message() != "" {
		text += fmt.Sprintf(" %q", s.Message())
	}
	if fields := fieldsOf(err); len(fields) > 0 {
		text += " naming " + strings.Join(fields, ", ")
	}
	return text
}

// endedInFull returns how a call ended with all details of the error.
func endedInFull(err error) string {
	text := ended(err)
	for _, detail := range status.Convert(err).Details() {
		text += fmt.Sprintf(", detail {%v}", detail)
	}
	return text
}

// codeName is the name of a code as the contract writes it.
func codeName(c codes.Code) string { return code.Code(c).String() }

// endsWith returns a breach if a call did not end with the code. What says which call it was.
func endsWith(want codes.Code, err error, what string) error {
	if status.Code(err) == want {
		return nil
	}
	return atCall(err, expected(codeName(want)+" for "+what, "%s", ended(err)))
}

// names returns a breach if a call did not end with INVALID_ARGUMENT and one violation of each of the fields alone, or did not say
// what the value may be.
func names(err error, what string, fields ...string) error {
	slices.Sort(fields)
	want := "INVALID_ARGUMENT naming " + strings.Join(fields, ", ") + " for " + what
	if status.Code(err) != codes.InvalidArgument || !slices.Equal(fieldsOf(err), fields) {
		return atCall(err, expected(want, "%s", ended(err)))
	}
	for _, v := range violationsOf(err) {
		if v.GetDescription() == "" {
			return expected(want+", with a description", "no description of %s", v.GetField())
		}
	}
	return nil
}

// atCall returns the reason why a call could not be made at all, if it has one, in place of what its code means.
func atCall(err, otherwise error) error {
	if reason, ok := err.(*notApplicable); ok { //nolint:errorlint // it comes from the client as it is; wrapped, it would be a status
		return reason
	}
	return otherwise
}

func violationsOf(err error) (list []*errdetails.BadRequest_FieldViolation) {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			list = append(list, bad.GetFieldViolations()...)
		}
	}
	return list
}

// fieldsOf returns the fields that an error names, in order.
func fieldsOf(err error) (fields []string) {
	for _, v := range violationsOf(err) {
		fields = append(fields, v.GetField())
	}
	slices.Sort(fields)
	return fields
}

// infoOf returns what an error has for the log, or nil.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}
