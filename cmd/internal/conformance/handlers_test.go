package conformance_test

import (
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/cmd/internal/conformance"
)

// A state is the data of a faulty service.
type state struct {
	fixtures conformance.Fixtures
	sync.Map // what the fault keeps: rows and offsets by cursor, responses and errors by key
}

// other returns the other team.
func (s *state) other(team string) conformance.Team {
	if s.fixtures.Teams[0].ID == team {
		return s.fixtures.Teams[1]
	}
	return s.fixtures.Teams[0]
}

// team returns the team with the id.
func (s *state) team(id string) conformance.Team {
	return s.other(s.other(id).ID)
}

// known reports whether an id is in the fixtures.
func (s *state) known(id string) bool {
	for _, team := range s.fixtures.Teams {
		for _, each := range team.Resources {
			if each == id {
				return true
			}
		}
	}
	return false
}

type handler = func(c *intercepted) (proto.Message, error)

// changeResponse returns a handler that changes responses of one type.
func changeResponse[M proto.Message](change func(c *intercepted, m M)) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if m, ok := response.(M); ok && err == nil {
			change(c, m)
		}
		return response, err
	}
}

// changeRequest returns a handler that changes requests of one type.
func changeRequest[M proto.Message](change func(c *intercepted, m M)) handler {
	return func(c *intercepted) (proto.Message, error) {
		if m, ok := c.request.(M); ok {
			change(c, m)
		}
		return c.pass(c.request)
	}
}

// onCode returns a handler for calls that end with the code.
func onCode(code codes.Code, handle func(c *intercepted, err error) (proto.Message, error)) handler {
	return func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		if status.Code(err) == code {
			return handle(c, err)
		}
		return response, err
	}
}

// accept returns a handler that replaces errors with the code by empty responses.
func accept(code codes.Code, when func(c *intercepted, err error) bool) handler {
	return onCode(code, func(c *intercepted, err error) (proto.Message, error) {
		if when(c, err) {
			return c.method.NewResponse(), nil
		}
		return nil, err
	})
}

// text returns a field of a message as text, or "".
func text(m proto.Message, field protoreflect.Name) string {
	if f := m.ProtoReflect().Descriptor().Fields().ByName(field); f != nil {
		return m.ProtoReflect().Get(f).String()
	}
	return ""
}

// with returns a copy of a message with another value of a text field.
func with(m proto.Message, field protoreflect.Name, value string) proto.Message {
	changed := proto.Clone(m)
	if f := m.ProtoReflect().Descriptor().Fields().ByName(field); f != nil {
		changed.ProtoReflect().Set(f, protoreflect.ValueOfString(value))
	}
	return changed
}

func team(c *intercepted) string { return text(c.request, "team_id") }

// reads reports whether the method reads the data of a team.
func reads(c *intercepted) bool { return c.method.TeamScoped() && !c.method.Writes() }

// invalidFields returns the fields in the violations of an error.
func invalidFields(err error) (fields []string) {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	return fields
}

// invalidArgument returns INVALID_ARGUMENT naming the fields.
func invalidArgument(fields ...string) error {
	bad := &errdetails.BadRequest{}
	for _, field := range fields {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: "is invalid"})
	}
	detailed, err := status.New(codes.InvalidArgument, "invalid").WithDetails(bad)
	if err != nil {
		panic(err)
	}
	return detailed.Err()
}
