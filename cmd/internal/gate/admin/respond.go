package admin

import (
	"encoding/json"
	"net/http"
)

// Failure is the body of an error response.
type Failure struct {
	Text    string            `json:"error"`
	Code    string            `json:"code"`
	Details map[string]string `json:"details,omitempty"` // problems by parameter
}

// Respond writes a response in JSON.
func Respond(w http.ResponseWriter, status int, body any) {
	setHeader(w, "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // readable on a terminal
	_ = encoder.Encode(body)     // fails only if the client has disconnected
}

// respond writes the response of a request without problems.
func respond(w http.ResponseWriter, problems map[string]string, body func() any) {
	if len(problems) > 0 {
		invalid(w, problems)
		return
	}
	Respond(w, http.StatusOK, body())
}

func setHeader(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}

// invalid rejects a request with invalid parameters.
func invalid(w http.ResponseWriter, details map[string]string) {
	Respond(w, http.StatusBadRequest, Failure{Text: "the request has invalid parameters", Code: "validation_error", Details: details})
}
