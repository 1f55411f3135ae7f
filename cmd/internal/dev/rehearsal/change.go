package rehearsal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// newField is the field that is added to objects: an object, because clients that flatten or copy values meet every type in it.
const newField = `"rehearsalNewField":{"text":"new","number":1.5,"list":[true,null]}`

// addFields adds a field to each object of a JSON text, at all depths.
func addFields(body []byte) []byte {
	var out bytes.Buffer
	quoted, escaped := false, false
	for i, c := range body {
		_ = out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && c == '{':
			_, _ = out.WriteString(newField)
			if rest := bytes.TrimLeft(body[i+1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
				_ = out.WriteByte(',')
			}
		}
	}
	return out.Bytes()
}

const (
	newValue  = "rehearsal"
	newScope  = "rehearsal:read"
	newAction = "rehearsal.performed"
)

// openSets returns the fields of a path's response whose sets of values the description calls open.
func openSets(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case path == "/v1/me":
		return []string{"scopes"}
	case path == "/v1/monitors":
		return []string{"type"}
	case path == "/v1/audit":
		return []string{"actionType", "resourceType"}
	case segments[0] == "servers" && len(segments) == 3 && segments[2] == "commands":
		return []string{"source", "status"}
	case segments[0] == "status-pages" && len(segments) <= 2:
		return []string{"visibility"}
	}
	return nil
}

// addValues sets the first of each field to a value that no client can have met. It relies on the gateway's JSON, which has no white space.
func addValues(body []byte, fields []string) []byte {
	for _, field := range fields {
		switch field {
		case "scopes":
			body = addScope(body)
		case "actionType":
			body = setFirst(body, field, newAction)
		default:
			body = setFirst(body, field, newValue)
		}
	}
	return body
}

// setFirst replaces the value of the first field of this name, a string. A quote inside a JSON string has a backslash before it, so the
// field cannot be found inside a value.
func setFirst(body []byte, field, value string) []byte {
	before, after, found := bytes.Cut(body, []byte(`"`+field+`":"`))
	if !found {
		return body
	}
	end := 0
	for end < len(after) && after[end] != '"' {
		if after[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(after) {
		return body
	}
	return slices.Concat(before, []byte(`"`+field+`":"`+value), after[end:])
}

// addScope adds a scope to the list, which stays sorted.
func addScope(body []byte) []byte {
	before, after, found := bytes.Cut(body, []byte(`"scopes":`))
	end := bytes.IndexByte(after, ']') + 1
	var scopes []string
	if !found || end == 0 || json.Unmarshal(after[:end], &scopes) != nil {
		return body
	}
	scopes = append(scopes, newScope)
	slices.Sort(scopes)
	list, err := json.Marshal(scopes)
	if err != nil {
		return body
	}
	return slices.Concat(before, []byte(`"scopes":`), list, after[end:])
}
