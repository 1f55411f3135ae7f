package conformance

import (
	"math"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// required reports whether the contract requires a message field of a response: the resource that a
// response returns, and the times that rows are ordered by.
func required(field protoreflect.FieldDescriptor) bool {
	if field.Message() == nil || field.IsList() {
		return false
	}
	switch field.FullName() {
	case "ops.fleet.v1.MetricPoint.at", "ops.monitoring.v1.MonitorCheck.checked_at", "ops.incident.v1.Incident.started_at":
		return true
	case "ops.identity.v1.ResolveTokenResponse.expires_at":
		return false
	}
	return field.Name() == "created_at" || strings.HasSuffix(string(field.Parent().Name()), "Response")
}

// enumWithValidZero is the enum whose zero value is allowed in responses.
const enumWithValidZero protoreflect.FullName = "ops.identity.v1.Plan"

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// wellFormed returns a breach if a field of a response breaks a rule that holds for all messages.
func wellFormed(response proto.Message) error {
	for _, m := range messages(response.ProtoReflect()) {
		if t, ok := m.Interface().(*timestamppb.Timestamp); ok && !t.IsValid() {
			return expected("a valid google.protobuf.Timestamp", "%v", t.CheckValid())
		}
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if required(field) && !m.Has(field) {
				return expected(string(field.FullName())+" to be set", "no %s in %s", field.Name(), label(m))
			}
			if field.IsList() || field.HasPresence() && !m.Has(field) {
				continue
			}
			if field.HasPresence() && standsForNothing(m.Get(field)) {
				return expected(string(field.FullName())+" to have a value, or to be absent", "%s in %s",
					fieldText(m.Interface(), field), label(m))
			}
			if want := violatedForm(field, m.Get(field)); want != "" {
				return expected(string(field.FullName())+" to be "+want, "%q in %s", m.Get(field).String(), label(m))
			}
		}
	}
	return nil
}

// standsForNothing reports whether a value is one that programs store for an absent one: an empty
// text, or a time before 1971.
func standsForNothing(value protoreflect.Value) bool {
	switch v := value.Interface().(type) {
	case string:
		return v == ""
	case protoreflect.Message:
		t, ok := v.Interface().(*timestamppb.Timestamp)
		return ok && t.IsValid() && t.AsTime().Year() <= 1970
	}
	return false
}

// inFuture returns a breach if a time of a response is after a time, except for the start of an
// incident, which a team may edit.
func inFuture(response proto.Message, after time.Time) error {
	for _, m := range messages(response.ProtoReflect()) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if field.Message() == nil || field.IsList() || field.FullName() == "ops.incident.v1.Incident.started_at" {
				continue
			}
			if t := timestamp(m, field); t.AsTime().After(after) {
				return expected(string(field.FullName())+" in the past", "%s in %s", timeText(t), label(m))
			}
		}
	}
	return nil
}

// violatedForm returns the form that a value should have, or "" if it has it.
func violatedForm(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	name := string(field.Name())
	switch field.Kind() {
	case protoreflect.EnumKind:
		known := field.Enum().Values().ByNumber(value.Enum()) != nil
		if !known || value.Enum() == 0 && field.Enum().FullName() != enumWithValidZero {
			return "a known value"
		}
	case protoreflect.DoubleKind:
		switch number := value.Float(); {
		case strings.HasSuffix(name, "_percent") && !(number >= 0 && number <= 100): // also for NaN
			return "0 to 100"
		case math.IsNaN(number) || math.IsInf(number, 0):
			return "finite"
		}
	case protoreflect.StringKind:
		switch {
		case (name == "id" || strings.HasSuffix(name, "_id")) && !isID(value.String()):
			return "a UUID in lower case"
		case strings.HasSuffix(name, "color") && !colour.MatchString(value.String()):
			return "#rrggbb"
		}
	}
	return ""
}

// label returns the type of a message, and its id if it has one.
func label(m protoreflect.Message) string {
	name := string(m.Descriptor().Name())
	if id := m.Descriptor().Fields().ByName("id"); id != nil {
		name += " " + m.Get(id).String()
	}
	return name
}

// messages returns a message and all messages in it.
func messages(m protoreflect.Message) []protoreflect.Message {
	all := []protoreflect.Message{m}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				all = append(all, messages(value.List().Get(i).Message())...)
			}
		default:
			all = append(all, messages(value.Message())...)
		}
		return true
	})
	return all
}

// messageIDs returns the ids of all messages in a response.
func messageIDs(response proto.Message) (ids []string) {
	for _, m := range messages(response.ProtoReflect()) {
		if id := text(m, "id"); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
