// Package contract lists the services and methods of the internal contract, read from the
// descriptors of its protos. Programs and tests that need every method use this list, so they also
// include methods that are added to a proto later.
package contract

//go:generate go -C ../.. tool -modfile=tools/go.mod buf generate

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	auditv1 "opsgate/proto/ops/audit/v1"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	identityv1 "opsgate/proto/ops/identity/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
	monitoringv1 "opsgate/proto/ops/monitoring/v1"
)

// files returns the descriptors of the proto files, one for each service.
func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		fleetv1.File_ops_fleet_v1_fleet_proto, monitoringv1.File_ops_monitoring_v1_monitoring_proto,
		incidentv1.File_ops_incident_v1_incident_proto, auditv1.File_ops_audit_v1_audit_proto,
		identityv1.File_ops_identity_v1_identity_proto,
	}
}

// A Service is one gRPC service of the contract.
type Service struct {
	// Name is the short name, such as "fleet".
	Name string
	// FullName is the name in gRPC, such as "ops.fleet.v1.FleetService".
	FullName string
}

// Services returns all services.
func Services() []Service {
	var all []Service
	for _, file := range files() {
		service := file.Services().Get(0)
		all = append(all, Service{Name: shortName(service), FullName: string(service.FullName())})
	}
	return all
}

// shortName returns the second part of the package name ops.<name>.v1.
func shortName(service protoreflect.ServiceDescriptor) string {
	return strings.Split(string(service.FullName()), ".")[1]
}

// A Method is one RPC of the contract.
type Method struct{ descriptor protoreflect.MethodDescriptor }

// Methods returns all methods, by service and in the order of the protos.
func Methods() []Method {
	var all []Method
	for _, file := range files() {
		methods := file.Services().Get(0).Methods()
		for i := range methods.Len() {
			all = append(all, Method{methods.Get(i)})
		}
	}
	return all
}

// MethodNamed returns the method with the name that [Method.String] returns, or an error if there
// is none.
func MethodNamed(name string) (Method, error) {
	for _, m := range Methods() {
		if m.String() == name {
			return m, nil
		}
	}
	return Method{}, fmt.Errorf("the contract has no method %q", name)
}

// String returns the service and the method, such as "fleet/GetServer".
func (m Method) String() string { return m.Service() + "/" + string(m.descriptor.Name()) }

// Service returns the short name of the service.
func (m Method) Service() string { return shortName(m.service()) }

func (m Method) service() protoreflect.ServiceDescriptor {
	//nolint:forcetypeassert // a method is declared in a service
	return m.descriptor.Parent().(protoreflect.ServiceDescriptor)
}

// Path returns the path that gRPC sends, such as "/ops.fleet.v1.FleetService/GetServer".
func (m Method) Path() string {
	return "/" + string(m.service().FullName()) + "/" + string(m.descriptor.Name())
}

// IsStream reports whether the method returns a stream.
func (m Method) IsStream() bool { return m.descriptor.IsStreamingServer() }

// TeamScoped reports whether the method acts for a team, which the request names.
func (m Method) TeamScoped() bool { return m.HasRequestField("team_id") }

// Writes reports whether the method changes data: such a request names an actor.
func (m Method) Writes() bool { return m.HasRequestField("actor") }

// IsProbe reports whether a gateway calls the method, with a request without fields, to find out
// whether an address is of the service. The service answers INVALID_ARGUMENT and reads no data.
func (m Method) IsProbe() bool {
	return slices.Contains([]string{
		"fleet/ListServers", "monitoring/ListMonitors", "incident/ListIncidents", "audit/ListAuditEntries",
		"identity/ResolveToken",
	}, m.String())
}

// HasRequestField reports whether requests have the field.
func (m Method) HasRequestField(name protoreflect.Name) bool {
	return m.descriptor.Input().Fields().ByName(name) != nil
}

// Resource returns the kind of resource that a request names in addition to the team, such as
// "server" for the field `server_id`. It returns "" if there is none. Optional fields and lists do
// not count.
func (m Method) Resource() string {
	fields := m.descriptor.Input().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); isResource(field) {
			return strings.TrimSuffix(string(field.Name()), idSuffix)
		}
	}
	return ""
}

const idSuffix = "_id"

func isResource(field protoreflect.FieldDescriptor) bool {
	name := string(field.Name())
	return strings.HasSuffix(name, idSuffix) && name != "team_id" && !field.IsList() && !field.HasPresence()
}

// Rows returns the field that holds the rows of a response, or nil if responses have none.
func (m Method) Rows() protoreflect.FieldDescriptor {
	fields := m.descriptor.Output().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.IsList() && field.Message() != nil {
			return field
		}
	}
	return nil
}

// ReturnsIDs reports whether responses hold messages with an `id`.
func (m Method) ReturnsIDs() bool { return hasID(m.descriptor.Output()) }

func hasID(message protoreflect.MessageDescriptor) bool {
	fields := message.Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Name() == "id" || field.Message() != nil && hasID(field.Message()) {
			return true
		}
	}
	return false
}

// NewResponse returns an empty response.
func (m Method) NewResponse() proto.Message { return newMessage(m.descriptor.Output()) }

func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err) // impossible: this package imports the generated code of every file
	}
	return kind.New().Interface()
}
