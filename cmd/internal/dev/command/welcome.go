package command

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"opsgate/cmd/internal/backend/webhook"
)

// welcome returns the text that is printed when the system is ready.
func welcome(s system, f flags) string {
	data, motion := "removed at the end (--data-dir keeps it)",
		"moves: agents report, monitors fail and recover (--still stops it)"
	if f.DataDir != "" {
		data = "kept in " + f.DataDir
	}
	if f.Still {
		motion = "is still"
	}
	text := new(strings.Builder)
	if len(s.Public) > 0 {
		fmt.Fprintf(text, "\nWARNING: %s can be reached from the network, and the tokens below are public: they are the "+
			"same for all who have\n"+
			"the source code. Every client that connects can read and change the data. Listen on 127.0.0.1 for this machine "+
			"alone.\n",
			strings.Join(s.Public, " and "))
	}
	notifications := "of subscribers are printed below"
	if f.SMTP != "" {
		notifications += "; emails are sent to " + f.SMTP
	}
	if f.Webhook != "" {
		notifications += "; webhooks are sent to " + f.Webhook + ", signed with " + webhook.FormatSecret(webhookSecret())
	}
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "\n  API\t%s\n", s.BaseURL)
	fmt.Fprintf(table, "  Documentation\t%s/docs/\n", s.BaseURL)
	fmt.Fprintf(table, "  Admin page\t%s/\n", s.AdminURL)
	fmt.Fprintf(table, "  Metrics\t%s/metrics\n", s.AdminURL)
	fmt.Fprintf(table, "  Health\t%s/readyz\n", s.AdminURL)
	fmt.Fprintf(table, "  Internal services\t%s (gRPC)\n", s.BackendAddr)
	fmt.Fprintf(table, "  Data\t%s\n", data)
	fmt.Fprintf(table, "  Demo data\t%s\n", motion)
	fmt.Fprintf(table, "  Notifications\t%s\n", notifications)
	_ = table.Flush() // a strings.Builder returns no error
	if f.Disturb > 0 {
		fmt.Fprintf(text, "\nDisturbed on purpose: %v%% of the requests under /v1/, by seed %d.\n", float64(f.Disturb),
			f.Seed)
	}
	if len(s.AdminNeeds) > 0 {
		fmt.Fprintf(text, "\nThe admin page and the metrics need %s.\n", strings.Join(s.AdminNeeds, ", and "))
	}

	fmt.Fprint(text, "\nDemo tokens:\n\n")
	for _, token := range s.Tokens {
		fmt.Fprintf(table, "  %s\t%s\n", token.Name, token.Text)
	}
	_ = table.Flush()

	curl := "curl"
	if strings.HasPrefix(s.BaseURL, "https:") {
		curl += " --insecure" // curl rarely trusts the certificate of a developer's machine
	}
	fmt.Fprintf(text, "\nTry it:\n\n  %s -H 'Authorization: Bearer %s' %s/v1/servers\n\n", curl, s.Tokens[0].Text,
		s.BaseURL)
	fmt.Fprint(text, "Ctrl-C stops it. Requests are logged to standard error.\n\n")
	return text.String()
}
