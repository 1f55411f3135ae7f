package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
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

// expectCode returns a breach if a call did not end with the code. The parameter what describes the
// call in the breach.
func expectCode(want codes.Code, err error, what string) error {
	if status.Code(err) == want {
		return nil
	}
	return expected(codeName(want)+" for "+what, "%s", resultText(err))
}

// expectViolations returns a breach if a call did not end with INVALID_ARGUMENT and exactly one
// violation for each of the fields, with a description.
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

// sameMessage returns a breach that names the first field in which two messages of one type differ.
// The breach begins with the text what.
func sameMessage(what string, want, got proto.Message) error {
	fields := want.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if want.ProtoReflect().Has(field) != got.ProtoReflect().Has(field) ||
			!want.ProtoReflect().Get(field).Equal(got.ProtoReflect().Get(field)) {
			name := string(field.Name())
			return expected(what+" "+name+" "+fieldText(want, field), "%s %s", name, fieldText(got, field))
		}
	}
	return nil
}

func fieldText(m proto.Message, field protoreflect.FieldDescriptor) string {
	value := m.ProtoReflect().Get(field)
	switch {
	case field.HasPresence() && !m.ProtoReflect().Has(field):
		return "absent"
	case field.Kind() == protoreflect.StringKind:
		return fmt.Sprintf("%.200q", value.String())
	case field.Enum() != nil:
		if v := field.Enum().Values().ByNumber(value.Enum()); v != nil {
			return string(v.Name())
		}
	case field.Message() != nil:
		if t, ok := value.Message().Interface().(*timestamppb.Timestamp); ok {
			return timeText(t)
		}
		return fmt.Sprintf("{%.300v}", value.Message().Interface())
	}
	return value.String()
}

// timeText returns a time in RFC 3339 with all digits, or "absent".
func timeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "absent"
	}
	return t.AsTime().Format(time.RFC3339Nano)
}

// sameList returns a breach that names the first position at which two lists of ids differ. The
// breach begins with the text what.
func sameList(what string, want, got []string) error {
	if slices.Equal(want, got) {
		return nil
	}
	at := func(list []string, i int) string {
		if i < len(list) {
			return fmt.Sprintf("%q as row %d of %d", list[i], i+1, len(list))
		}
		return fmt.Sprintf("no row %d, only %d", i+1, len(list))
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	return expected(what+": "+at(want, i), "%s", at(got, i))
}
