package conformance_test

import (
	"encoding/base64"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/proto/contract"
	auditv1 "opsgate/proto/ops/audit/v1"
)

// listFaults returns faults of lists with cursors.
func listFaults() []fault {
	return append([]fault{
		{name: "pages are larger than page_size", fails: []string{"*/page-size-kept", "*/walk-one-millisecond"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				if size := pageSize(c.request); size > 0 && size < 100 {
					setPageSize(c.request, size+1)
				}
				return c.pass(c.request)
			})},
		{name: "pages start with the row that the cursor names", fails: []string{"*/walk", "*/walk-under-writes", "*/walk-one-millisecond"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				if err != nil || pageSize(c.request) == contract.MaxPageSize {
					return response, err
				}
				owner := team(c) + c.method.String()
				if last, known := c.state.Load(owner + text(c.request, "cursor")); known {
					list := rowsOf(c, response)
					again := proto.Clone(response)
					list.Truncate(0)
					list.Append(protoreflect.ValueOfMessage(last.(proto.Message).ProtoReflect()))
					proto.Merge(response, again)
				}
				if next := text(response, "next_cursor"); next != "" {
					rows := rowsOf(c, response)
					c.state.Store(owner+next, rows.Get(rows.Len()-1).Message().Interface())
				}
				return response, nil
			})},
		{name: "cursors are offsets", fails: []string{"*/walk-under-writes", "*/walk-one-millisecond"}, unary: onLists(byOffset)},
		{name: "cursors are not base64", fails: []string{"*/cursor-format"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(with(c.request, "cursor", strings.TrimPrefix(text(c.request, "cursor"), "row:")))
				if err != nil || text(response, "next_cursor") == "" {
					return response, err
				}
				return with(response, "next_cursor", "row:"+text(response, "next_cursor")), nil
			})},
		{name: "cursor_ignored is always set", fails: []string{"*/cursor-recognised"},
			unary: onLists(func(c *intercepted) (proto.Message, error) {
				response, err := c.pass(c.request)
				return ignored(response, true), err
			})},
		{name: "malformed cursors are errors", fails: []string{"*/cursor-malformed"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if kind == "" {
					return nil, status.Error(codes.InvalidArgument, "bad cursor")
				}
				return response, nil
			})},
		{name: "cursors of other methods are recognised", fails: []string{"*/cursor-of-another-method"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if kind != "" && !ofMethod(c, kind) {
					return ignored(response, false), nil
				}
				return response, nil
			})},
		{name: "cursors of other teams are recognised", fails: []string{"*/cursor-of-another-team"},
			unary: ignoring(func(c *intercepted, response proto.Message, kind string) (proto.Message, error) {
				if ofMethod(c, kind) {
					return ignored(response, false), nil
				}
				return response, nil
			})},
	}, prefixFaults()...)
}

func prefixFaults() []fault {
	return []fault{
		{name: "matching entries are missing", fails: []string{"audit/ListAuditEntries/prefix", "audit/ListAuditEntries/prefix-paged"},
			unary: changeResponse(func(c *intercepted, m *auditv1.ListAuditEntriesResponse) {
				if text(c.request, "action_prefix") != "" && len(m.Entries) > 0 {
					m.Entries = m.Entries[1:]
				}
			})},
		{name: "prefixes have wildcards", fails: []string{"audit/ListAuditEntries/prefix-literal"},
			unary: changeRequest(func(_ *intercepted, m *auditv1.ListAuditEntriesRequest) {
				if at := strings.IndexAny(m.ActionPrefix, "%_"); at >= 0 {
					m.ActionPrefix = m.ActionPrefix[:at]
				}
			})},
		{name: "prefixes ignore case", fails: []string{"audit/ListAuditEntries/prefix-case"},
			unary: changeRequest(func(_ *intercepted, m *auditv1.ListAuditEntriesRequest) {
				m.ActionPrefix = strings.ToLower(m.ActionPrefix)
			})},
	}
}

// onLists handles calls of methods with cursors.
func onLists(handle handler) handler {
	return func(c *intercepted) (proto.Message, error) {
		if c.request.ProtoReflect().Descriptor().Fields().ByName("cursor") != nil {
			return handle(c)
		}
		return c.pass(c.request)
	}
}

// ignoring handles responses to cursors that the reference backend ignores. The kind identifies the list of a cursor of the reference
// backend; it is "" for other texts.
func ignoring(handle func(c *intercepted, response proto.Message, kind string) (proto.Message, error)) handler {
	return onLists(func(c *intercepted) (proto.Message, error) {
		response, err := c.pass(c.request)
		field := fieldOf(c.method.NewResponse(), "cursor_ignored")
		if err != nil || !response.ProtoReflect().Get(field).Bool() {
			return response, err
		}
		const length = 17 // the kind and a UUID
		raw, err := base64.RawURLEncoding.DecodeString(text(c.request, "cursor"))
		if err != nil || len(raw) != length {
			return handle(c, response, "")
		}
		return handle(c, response, string(raw[:1]))
	})
}

// ofMethod reports whether the kind is that of the method's cursors.
func ofMethod(c *intercepted, kind string) bool {
	first := with(c.request, "cursor", "")
	setPageSize(first, 1)
	response, err := c.pass(first)
	if err != nil {
		return false
	}
	own, err := base64.RawURLEncoding.DecodeString(text(response, "next_cursor"))
	return err == nil && len(own) > 0 && kind == string(own[:1])
}

// byOffset uses the number of earlier rows as the cursor. The reference backend handles unknown cursors.
func byOffset(c *intercepted) (proto.Message, error) {
	owner := team(c) + c.method.String()
	before, _ := c.state.Load(owner + text(c.request, "cursor"))
	offset, _ := before.(int)
	response, err := c.skipping(offset)
	if err != nil || text(response, "next_cursor") == "" {
		return response, err
	}
	cursor := base64.RawURLEncoding.EncodeToString([]byte(uuid.NewString()))
	c.state.Store(owner+cursor, offset+int(pageSize(c.request)))
	return with(response, "next_cursor", cursor), nil
}

// skipping returns the page after the number of rows.
func (c *intercepted) skipping(rows int) (proto.Message, error) {
	if rows == 0 {
		return c.pass(c.request)
	}
	before := with(c.request, "cursor", "")
	for rows > 0 {
		const most = 100
		setPageSize(before, int32(min(rows, most)))
		rows -= min(rows, most)
		skipped, err := c.pass(before)
		if err != nil {
			return nil, err
		}
		before = with(before, "cursor", text(skipped, "next_cursor"))
	}
	return c.pass(with(c.request, "cursor", text(before, "cursor")))
}

func fieldOf(m proto.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return m.ProtoReflect().Descriptor().Fields().ByName(name)
}

func pageSize(m proto.Message) int32 {
	return int32(m.ProtoReflect().Get(fieldOf(m, "page_size")).Int())
}

func setPageSize(m proto.Message, size int32) {
	m.ProtoReflect().Set(fieldOf(m, "page_size"), protoreflect.ValueOfInt32(size))
}

func ignored(m proto.Message, is bool) proto.Message {
	m.ProtoReflect().Set(fieldOf(m, "cursor_ignored"), protoreflect.ValueOfBool(is))
	return m
}

// rowsOf returns the rows of a response.
func rowsOf(c *intercepted, response proto.Message) protoreflect.List {
	return response.ProtoReflect().Mutable(c.method.Rows()).List()
}
