package conformance

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
)

// fields are values for fields of a request, by name. The value nil clears a field, and one text is
// a list with one element.
type fields map[protoreflect.Name]any

func (f fields) applyTo(m proto.Message) proto.Message {
	for name, value := range f {
		set(m, name, value)
	}
	return m
}

// with returns the union of two sets of values. Those of the second one replace those of the first.
func (f fields) with(others fields) fields {
	union := maps.Clone(f)
	maps.Copy(union, others)
	return union
}

func set(m proto.Message, name protoreflect.Name, value any) {
	message := m.ProtoReflect()
	field := message.Descriptor().Fields().ByName(name)
	switch v := value.(type) {
	case nil:
		message.Clear(field)
	case proto.Message:
		message.Set(field, protoreflect.ValueOfMessage(v.ProtoReflect()))
	case protoreflect.Enum:
		message.Set(field, protoreflect.ValueOfEnum(v.Number()))
	case int:
		if field.Enum() != nil {
			message.Set(field, protoreflect.ValueOfEnum(protoreflect.EnumNumber(v)))
		} else {
			message.Set(field, protoreflect.ValueOfInt32(int32(v)))
		}
	case []string:
		for _, text := range v {
			message.Mutable(field).List().Append(protoreflect.ValueOfString(text))
		}
	default:
		if field.IsList() {
			message.Mutable(field).List().Append(protoreflect.ValueOf(v))
		} else {
			message.Set(field, protoreflect.ValueOf(v))
		}
	}
}

// valueText describes a value of a field in a breach.
func valueText(field protoreflect.Name, value any) string {
	const long = 50
	switch v := value.(type) {
	case nil:
		return "no " + string(field)
	case []byte:
		return fmt.Sprintf("%s of %d bytes", field, len(v))
	case []string:
		return fmt.Sprintf("%s of %d elements", field, len(v))
	case string:
		if n := utf8.RuneCountInString(v); n > long {
			return fmt.Sprintf("%s of %d characters", field, n)
		}
		return fmt.Sprintf("%s %q", field, v)
	}
	return fmt.Sprint(field, " ", value)
}

// get returns the value of a field, or the zero value if the message has no such field.
func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	if field := m.Descriptor().Fields().ByName(name); field != nil {
		return m.Get(field)
	}
	return protoreflect.Value{}
}

// text returns a text of a message, or "".
func text(m protoreflect.Message, name protoreflect.Name) string {
	if s, ok := get(m, name).Interface().(string); ok {
		return s
	}
	return ""
}

// timestamp returns a time of a message, or nil.
func timestamp(m protoreflect.Message, field protoreflect.FieldDescriptor) *timestamppb.Timestamp {
	t, _ := m.Get(field).Message().Interface().(*timestamppb.Timestamp)
	return t
}

// rowsOf returns the rows of a method's response.
func rowsOf(m contract.Method, response proto.Message) []protoreflect.Message {
	list := response.ProtoReflect().Get(m.Rows()).List()
	rows := make([]protoreflect.Message, list.Len())
	for i := range rows {
		rows[i] = list.Get(i).Message()
	}
	return rows
}

// idsOf returns the ids of messages of one type.
func idsOf[M interface{ GetId() string }](messages []M) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.GetId()
	}
	return ids
}

// find returns the message with the id, which has to be there.
func find[M interface{ GetId() string }](messages []M, id string) M {
	at := slices.Index(idsOf(messages), id)
	require(at >= 0, "a row with the id "+id, "%d others", len(messages))
	return messages[at]
}

// idField returns the field in which requests name a resource. If they name none, there is no such
// field.
func idField(m contract.Method) protoreflect.Name { return protoreflect.Name(m.Resource() + "_id") }
