//go:build ignore

// Receives the webhooks of a status page, and processes each message once.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type payload struct {
	Type string
	Data struct {
		Incident struct{ ID, Status, Title string }
	}
}

type receiver struct {
	webhook *standardwebhooks.Webhook

	mu        sync.Mutex
	processed map[string]bool // in production: a unique column in the database, written in the transaction of the effect
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
	if err != nil {
		return
	}
	if err := r.webhook.Verify(body, request.Header); err != nil { // the bytes as they came: parsed and encoded again, they would differ
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := request.Header.Get("webhook-id"); !r.processed[id] {
		fmt.Println(p.Type, p.Data.Incident.ID, p.Data.Incident.Status, p.Data.Incident.Title)
		r.processed[id] = true
	}
	w.WriteHeader(http.StatusNoContent) // also to a repeat, else it comes again
}

func main() {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8000"))
	if err != nil {
		panic(err)
	}
	fmt.Println("listening on port", listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, &receiver{webhook: webhook, processed: make(map[string]bool)}))
}
