package command

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/internal/testkit"
)

type refusing struct{}

func (refusing) Send(context.Context, delivery.Message) error { return errors.New("refused") }

func TestPrinter_PrintsWhatIsNotRefused(t *testing.T) {
	var out bytes.Buffer
	message := delivery.Message{
		Subscriber: delivery.Subscriber{Address: "ana@customer.example"}, Page: delivery.Page{Name: "Harbour"},
		Incident: delivery.Incident{Title: "Slow search"}, Update: delivery.Update{Status: "resolved"},
	}
	if err := (printer{channel: delivery.Email, out: &out, sender: refusing{}}).Send(t.Context(), message); err == nil || out.Len() > 0 {
		t.Errorf("refused: %v, %q", err, out.String())
	}
	testkit.Must(t, printer{channel: delivery.Email, out: &out}.Send(t.Context(), message))
	if want := "notification  email  ana@customer.example  [Harbour] Slow search: resolved\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
