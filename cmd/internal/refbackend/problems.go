package refbackend

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
)

// violations gathers what is wrong with a request, so that all of it comes back together.
type violations []*errdetails.BadRequest_FieldViolation

// add says of a field, named as in the request message, what it must be. API clients are shown the text.
func (v *violations) add(field, description string) {
	*v = append(*v, &errdetails.BadRequest_FieldViolation{Field: field, Description: description})
}

// pageSize checks a field that says how much to return.
func (v *violations) pageSize(size int32) {
	if size < 1 || size > maxPage {
		v.add("page_size", fmt.Sprintf("must be 1 to %d", maxPage))
	}
}

// err is nil if nothing is wrong, else INVALID_ARGUMENT with the violations as details.
func (v violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return withDetails(codes.InvalidArgument, "the request is invalid", &errdetails.BadRequest{FieldViolations: v})
}

// noSuch is NOT_FOUND in the same words whether the thing was never there or is another team's.
func noSuch(what string) error {
	return status.Error(codes.NotFound, "no such "+what)
}

// withReason is an error whose ErrorInfo tells the log of the edge more than the code does. Metadata may be nil.
func withReason(code codes.Code, text, reason string, metadata map[string]string) error {
	return withDetails(code, text, &errdetails.ErrorInfo{Reason: reason, Domain: "opsgate", Metadata: metadata})
}

func withDetails(code codes.Code, text string, details ...protoadapt.MessageV1) error {
	detailed, err := status.New(code, text).WithDetails(details...)
	if err != nil { // details that cannot be marshalled; the code is what matters
		return status.Error(code, text)
	}
	return detailed.Err()
}
