package openapitest

import "strings"

// The forms that the descriptions of the schemas state. The document has no patterns for them,
// because generators fail on one beside a format.
const (
	idForm     = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	sentIDForm = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`
	timeForm   = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`
	sinceForm  = `^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?(Z|[+ -]([01]\d|2[0-4]):?([0-5]\d|60))$`
)

// addForms adds the patterns of ids and times. What is sent, in the body of a request or by
// IdAsSent, may have ids in either case.
func addForms(root map[string]any) {
	components, _ := root["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, schema := range schemas {
		id := idForm
		if isRequest(name) || name == "IdAsSent" {
			id = sentIDForm
		}
		walkSchemas(schema, func(schema map[string]any) {
			switch schema["format"] {
			case "uuid":
				schema["pattern"] = id
			case "date-time":
				schema["pattern"] = timeForm
			}
		})
	}
}

// isRequest reports whether the schema with a name is that of a request's body.
func isRequest(name string) bool { return strings.HasSuffix(name, "Input") }
