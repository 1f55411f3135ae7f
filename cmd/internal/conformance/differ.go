package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// sameMessage returns a breach that names the first field in which two messages of one type differ. The breach begins with the text what.
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

// timelineText returns the number, statuses and messages of updates.
func timelineText(updates ...*incidentv1.IncidentUpdate) string {
	texts := make([]string, len(updates))
	for i, u := range updates {
		texts[i] = fmt.Sprintf("%v %.100q", u.GetStatus(), u.GetMessage())
	}
	return fmt.Sprintf("%d updates: %s", len(updates), strings.Join(texts, ", "))
}

// sameList returns a breach that names the first position at which two lists of ids differ. The breach begins with the text what.
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
