package contract

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// MaxPageSize is the largest page size of the methods that return pages.
const MaxPageSize = 100

// A Target holds the values of a request that [Method.ReadRequest] cannot choose itself.
type Target struct {
	Team string
	// Resource is the id in the field that [Method.Resource] describes.
	Resource string
	// Since is the start of time ranges.
	Since time.Time
}

// ReadRequest returns a valid request of a method that reads: the first page, of the largest size,
// with the first value of each enum. Fields of other kinds are optional in reads and stay empty.
func (m Method) ReadRequest(t Target) proto.Message {
	request := newMessage(m.descriptor.Input()).ProtoReflect()
	fields := m.descriptor.Input().Fields()
	for i := range fields.Len() {
		if value := t.value(fields.Get(i)); value.IsValid() {
			request.Set(fields.Get(i), value)
		}
	}
	return request.Interface()
}

// value returns a valid value of a field, or the zero value for fields that stay empty.
func (t Target) value(field protoreflect.FieldDescriptor) protoreflect.Value {
	const timestamp = "google.protobuf.Timestamp"
	switch {
	case field.Name() == "team_id":
		return protoreflect.ValueOfString(t.Team)
	case isResource(field):
		return protoreflect.ValueOfString(t.Resource)
	case field.Name() == "page":
		return protoreflect.ValueOfInt32(1)
	case field.Name() == "page_size":
		return protoreflect.ValueOfInt32(MaxPageSize)
	case field.Message() != nil && field.Message().FullName() == timestamp:
		return protoreflect.ValueOfMessage(timestamppb.New(t.Since).ProtoReflect())
	case field.Enum() != nil:
		return protoreflect.ValueOfEnum(1)
	}
	return protoreflect.Value{}
}
