package conformance

import (
	"math"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// required reports whether the contract requires a message field of a response: the resource that a response returns, and the times
// that rows are ordered by.
func required(field protoreflect.FieldDescriptor) bool {
	if field.Message() == nil || field.IsList() {
		return false
	}
	switch field.FullName() {
	case "ops.fleet.v1.MetricPoint.at", "ops.monitoring.v1.MonitorCheck.checked_at", "ops.incident.v1.Incident.started_at":
		return true
	}
	return field.Name() == "created_at" || strings.HasSuffix(string(field.Parent().Name()), "Response")
}

// enumWithValidZero is the enum whose zero value is allowed in responses.
const enumWithValidZero protoreflect.FullName = "ops.identity.v1.Plan"

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// wellFormed returns a breach if a field of a response breaks a rule that holds for all messages.
func wellFormed(response proto.Message) error {
	return checkMessage(response.ProtoReflect())
}

func checkMessage(m protoreflect.Message) error {
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		if err := t.CheckValid(); err != nil {
			return expected("a valid google.protobuf.Timestamp", "%v", err)
		}
		return nil
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if required(field) && !m.Has(field) {
			return expected(string(field.FullName())+" to be set", "no %s in %s", field.Name(), label(m))
		}
		if err := checkField(m, field); err != nil {
			return err
		}
	}
	return nil
}

func checkField(m protoreflect.Message, field protoreflect.FieldDescriptor) error {
	value := m.Get(field)
	switch {
	case field.IsList() && field.Message() != nil:
		for i := range value.List().Len() {
			if err := checkMessage(value.List().Get(i).Message()); err != nil {
				return err
			}
		}
	case field.IsList() || field.HasPresence() && !m.Has(field):
	case field.Message() != nil:
		return checkMessage(value.Message())
	case !isValidValue(field, value):
		return expected(string(field.FullName())+" to be "+validForm(field), "%q in %s", value.String(), label(m))
	}
	return nil
}

// isValidValue reports whether a single value is valid.
func isValidValue(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	name := string(field.Name())
	switch field.Kind() {
	case protoreflect.EnumKind:
		known := field.Enum().Values().ByNumber(value.Enum()) != nil
		return known && (value.Enum() != 0 || field.Enum().FullName() == enumWithValidZero)
	case protoreflect.DoubleKind:
		number := value.Float()
		if strings.HasSuffix(name, "_percent") {
			return number >= 0 && number <= 100
		}
		return !math.IsNaN(number) && !math.IsInf(number, 0)
	case protoreflect.StringKind:
		switch {
		case name == "id" || strings.HasSuffix(name, "_id"):
			return isID(value.String())
		case name == "color" || strings.HasSuffix(name, "_color"):
			return colour.MatchString(value.String())
		}
	}
	return true
}

func validForm(field protoreflect.FieldDescriptor) string {
	switch {
	case field.Kind() == protoreflect.EnumKind:
		return "a known value"
	case strings.HasSuffix(string(field.Name()), "_percent"):
		return "0 to 100"
	case field.Kind() == protoreflect.DoubleKind:
		return "finite"
	case strings.HasSuffix(string(field.Name()), "color"):
		return "#rrggbb"
	}
	return "a UUID in lower case"
}

// label returns the type of a message, and its id if it has one.
func label(m protoreflect.Message) string {
	name := string(m.Descriptor().Name())
	if id := m.Descriptor().Fields().ByName("id"); id != nil {
		name += " " + m.Get(id).String()
	}
	return name
}

// messageIDs returns the ids of all messages in a response.
func messageIDs(response proto.Message) (ids []string) {
	response.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				ids = append(ids, messageIDs(value.List().Get(i).Message().Interface())...)
			}
		case field.Message() != nil:
			ids = append(ids, messageIDs(value.Message().Interface())...)
		case field.Name() == "id":
			ids = append(ids, value.String())
		}
		return true
	})
	return ids
}
