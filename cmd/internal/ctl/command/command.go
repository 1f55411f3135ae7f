package command

import (
	"context"
	"io"
	"time"

	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// Environment is what the process gives to the program.
type Environment struct {
	In       io.ReadCloser
	Out, Err io.Writer
	Terminal bool // whether Out is a terminal
	// Variables are as os.Environ returns them.
	Variables []string
	// Clock and Sleep are for tests; nil for real time.
	Clock func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// commands is the grammar of the command line.
type commands struct {
	settings

	Me           me               `cmd:"" help:"Verify the token and show its team and scopes."`
	Servers      serverGroup      `cmd:"" help:"Servers and what their agents report."`
	ServerGroups serverGroupGroup `cmd:"" help:"Groups of servers."`
	Monitors     monitorGroup     `cmd:"" help:"Uptime monitors and the results of their checks."`
	Incidents    incidentGroup    `cmd:"" help:"Incidents and their timelines."`
	StatusPages  statusPageGroup  `cmd:"" help:"Status pages, their components and public incidents."`
	Audit        auditGroup       `cmd:"" help:"The audit log."`
	API          rawCall          `cmd:"" name:"api" help:"Call any path of the API and print the answer as it is."`
	MCP          serveMCP         `cmd:"" name:"mcp" help:"Serve the Model Context Protocol, for AI agents, on standard input and output."`

	commandline.Commands
}

// settings are the flags of all commands.
type settings struct {
	URL          string         `name:"url" placeholder:"URL" help:"URL of the API (else $$OPSCTL_URL), as https://api.example.com."`
	TokenFile    string         `placeholder:"FILE" help:"File with the API token (else $$OPSCTL_TOKEN). Others must not be able to read it."`
	Output       string         `short:"o" enum:"table,json,id" default:"table" help:"table for people, json for programs, or only each id."`
	MaxWait      *time.Duration `placeholder:"DURATION" help:"Longest time to repeat a failed request (1m; mcp: 5s)."`
	Timeout      time.Duration  `default:"30s" help:"Time for each attempt of a request (${default})."`
	InsecureHTTP bool           `name:"insecure-http" help:"Send the token without encryption to a host that is not this machine."`
}

// Output formats.
const (
	asTable = "table"
	asJSON  = "json"
	asID    = "id"
)

// program is what commands run with.
type program struct {
	*settings
	Environment
}

// Run runs the program with its arguments, without its name, and returns the exit code: see exitCodes.
func Run(ctx context.Context, arguments []string, environment Environment) int {
	if environment.Clock == nil {
		environment.Clock = time.Now
	}
	if environment.Sleep == nil {
		environment.Sleep = sleep
	}
	var grammar commands
	return commandline.Program{
		Name: "opsctl",
		Description: "The operations API from a terminal, from CI and for AI agents. The token is $$OPSCTL_TOKEN or in --token-file, " +
			"the base URL is $$OPSCTL_URL or --url. Exit codes: " + exitCodeText() + ".",
		About: about(), Out: environment.Out, Err: environment.Err,
	}.Run(ctx, &grammar, arguments, &program{&grammar.settings, environment})
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// about returns the sections of the manual page after the commands.
func about() commandline.About {
	codes := commandline.Section{Title: "EXIT STATUS"}
	for _, c := range exitCodes {
		codes.Items = append(codes.Items, commandline.Item{Term: c.code(), Text: c.meaning + "."})
	}
	return commandline.About{Build: buildinfo.Read(), Sections: []commandline.Section{
		{Title: "ENVIRONMENT", Items: []commandline.Item{
			{Term: tokenVariable, Text: "The API token."},
			{Term: urlVariable, Text: "Base URL of the API."},
			{Term: "HTTPS_PROXY, HTTP_PROXY, NO_PROXY", Text: "Proxies, as curl reads them."},
			{Term: "SSL_CERT_FILE", Text: "Certificates of the authorities to trust."},
		}},
		codes,
	}}
}
