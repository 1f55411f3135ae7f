package service

import (
	"database/sql"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// violations collects the invalid fields of a request.
type violations []*errdetails.BadRequest_FieldViolation

// add adds a field, named as in the request message, with the values that are valid. API clients
// read the description.
func (v *violations) add(field, description string) {
	*v = append(*v, &errdetails.BadRequest_FieldViolation{Field: field, Description: description})
}

// pageSize checks the field page_size.
func (v *violations) pageSize(size int32) {
	if size < 1 || size > maxPage {
		v.add("page_size", fmt.Sprintf("must be 1 to %d", maxPage))
	}
}

// err returns nil if there are no violations, or else INVALID_ARGUMENT with the violations as
// details.
func (v violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return withDetails(codes.InvalidArgument, "the request is invalid", &errdetails.BadRequest{FieldViolations: v})
}

// invalidField returns INVALID_ARGUMENT with one violation.
func invalidField(field, description string) error {
	var problems violations
	problems.add(field, description)
	return problems.err()
}

// noSuch returns NOT_FOUND. The error is the same for an unknown id and for another team's.
func noSuch(what string) error {
	return status.Error(codes.NotFound, "no such "+what)
}

// orNoSuch returns the error of a query for one row of the API: NOT_FOUND if there is none.
func orNoSuch(err error, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return noSuch(what)
	}
	return fmt.Errorf("look for the %s: %w", what, err)
}

// ErrNotFound is returned for a team, a token, a status page, a subscriber or a delivery that does
// not exist.
var ErrNotFound = errors.New("not found")

// orNotFound is orNoSuch for the command line: ErrNotFound if there is no row.
func orNotFound(err error, what, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s %q: %w", what, name, ErrNotFound)
	}
	return fmt.Errorf("look for the %s: %w", what, err)
}

// withReason returns an error with an ErrorInfo, which the gateway logs. Metadata may be nil.
func withReason(code codes.Code, text, reason string, metadata map[string]string) error {
	return withDetails(code, text, &errdetails.ErrorInfo{Reason: reason, Domain: "opsgate", Metadata: metadata})
}

func withDetails(code codes.Code, text string, details ...protoadapt.MessageV1) error {
	detailed, err := status.New(code, text).WithDetails(details...)
	if err != nil { // the details cannot be marshalled; the code is sufficient
		return status.Error(code, text)
	}
	return detailed.Err()
}
