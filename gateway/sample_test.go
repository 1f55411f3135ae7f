package gateway

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A sampler fills messages with generated values. All values of a message differ, so that tests
// detect exchanged fields.
type sampler struct {
	elements int  // minimum length of a list of messages; 0 for empty lists
	bare     bool // optional fields are absent, flags are false, lists of scalars are empty
	n        int  // number of the last value
}

// fill sets the fields of an empty message.
func (s *sampler) fill(m protoreflect.Message) { s.fillAs(m, 0) }

// fillAs fills the element number i of a list. Enums take their values in turn.
func (s *sampler) fillAs(m protoreflect.Message, i int) {
	fields := m.Descriptor().Fields()
	for number := range fields.Len() {
		s.fillField(m, fields.Get(number), i)
	}
	if incident, ok := m.Interface().(*incidentv1.Incident); ok && incident.Status != incidentv1.IncidentStatus_INCIDENT_STATUS_RESOLVED {
		incident.ResolvedAt = nil
	}
}

func (s *sampler) fillField(m protoreflect.Message, field protoreflect.FieldDescriptor, i int) {
	switch {
	case field.IsList() && field.Message() != nil:
		s.fillList(m.Mutable(field).List(), field)
	case field.IsList():
		if !s.bare {
			m.Mutable(field).List().Append(s.scalar(field, i))
			m.Mutable(field).List().Append(s.scalar(field, i+1))
		}
	case s.bare && field.HasOptionalKeyword():
	case field.Message() == nil:
		m.Set(field, s.scalar(field, i))
	case field.Message().FullName() == "google.protobuf.Timestamp":
		s.n++
		m.Set(field, protoreflect.ValueOfMessage(at(s.n).ProtoReflect()))
	default:
		s.fillAs(m.Mutable(field).Message(), i)
	}
}

// fillList appends an element for each value of the element's enums, and a bare one.
func (s *sampler) fillList(list protoreflect.List, field protoreflect.FieldDescriptor) {
	if s.elements == 0 {
		return
	}
	n := s.elements
	for i := range field.Message().Fields().Len() {
		if enum := field.Message().Fields().Get(i).Enum(); enum != nil {
			n = max(n, enum.Values().Len()-1)
		}
	}
	for i := range n {
		s.fillAs(list.AppendMutable().Message(), i)
	}
	bare := sampler{bare: true, n: s.n}
	bare.fill(list.AppendMutable().Message())
}

// scalar returns a value of a field: the enum value number i, counted without the unspecified one,
// or a value made of the field's name and the number of the sampler.
func (s *sampler) scalar(field protoreflect.FieldDescriptor, i int) protoreflect.Value {
	s.n++
	switch name := string(field.Name()); field.Kind() {
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(1 + i%(values.Len()-1)).Number())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!s.bare)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(s.n%100) + 0.98765)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(s.n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(s.n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s.text(name))
	default:
		panic(fmt.Sprintf("%s: the sampler has no value of kind %v", field.FullName(), field.Kind()))
	}
}

// text returns a string that the public schemas accept for a field of that name.
func (s *sampler) text(name string) string {
	switch {
	case name == "id" || strings.HasSuffix(name, "_id"):
		return fmt.Sprintf("0c0c0c0c-0000-7000-8000-%012d", s.n)
	case strings.HasSuffix(name, "color"):
		return fmt.Sprintf("#%06d", s.n)
	case strings.HasSuffix(name, "cursor"):
		return fmt.Sprintf("cursor-%d", s.n)
	}
	return fmt.Sprintf("%s %d", name, s.n)
}

// at returns a fixed time plus the given number of hours.
func at(hours int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3+hours, 4, 5, 678_901_234, time.UTC))
}

// sample returns a message of a type with all fields set.
func sample[M proto.Message](elements int) M {
	var empty M
	m := empty.ProtoReflect().New()
	(&sampler{elements: elements}).fill(m)
	filled, _ := m.Interface().(M)
	return filled
}
