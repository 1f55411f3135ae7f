package admin

import (
	"encoding/json"
	"net/http"
)

// A Failure is why an operator gets no answer.
type Failure struct {
	Text    string            `json:"error"`
	Code    string            `json:"code"`
	Details map[string]string `json:"details,omitempty"` // what is wrong, by parameter
}

// respond answers in JSON.
func respond(w http.ResponseWriter, status int, answer any) {
	setHeader(w, "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // nothing here is HTML, and people read it at a terminal
	_ = encoder.Encode(answer)   // the caller is gone: nobody is left to tell
}

func setHeader(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
}

// invalid says what is wrong with the parameters of a request.
func invalid(w http.ResponseWriter, details map[string]string) {
	respond(w, http.StatusBadRequest, Failure{Text: "the request has invalid parameters", Code: "validation_error", Details: details})
}
