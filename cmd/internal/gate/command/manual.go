package command

import (
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/kit/commandline"
)

// about returns the sections of the manual page after the commands.
func about() commandline.About {
	return commandline.About{Build: buildinfo.Read(), Sections: []commandline.Section{
		{Title: "SIGNALS", Items: []commandline.Item{
			{Term: "SIGTERM, SIGINT", Text: "Drain: fail /readyz, keep serving for shutdown.drain_wait so that load balancers notice, " +
				"close the listener, and wait up to shutdown.grace for requests in flight. A second signal ends the process at once."},
			{Term: "SIGHUP", Text: "Reload the configuration. A change of its files also reloads it. An invalid configuration changes nothing."},
		}},
		{Title: "FILES", Items: []commandline.Item{
			{Term: "/etc/opsgate/opsgate.yaml", Text: "The configuration, unless --config or $OPSGATE_CONFIG names another file."},
		}},
		{Title: "ENVIRONMENT", Items: []commandline.Item{
			{Term: "OPSGATE_CONFIG", Text: "Path of the configuration file."},
			{Term: "OPSGATE_*", Text: "Each key of the configuration, in upper case and with _ for each dot. Overrides the file."},
			{Term: "GOGC, GOMEMLIMIT, AUTOMEMLIMIT", Text: "Go's garbage collection target, its memory limit, and whether that follows " +
				"the limit of the container (off: it does not)."},
			{Term: "NOTIFY_SOCKET", Text: "The socket for notifications to systemd: see sd_notify(3)."},
		}},
		{Title: "EXIT STATUS", Items: []commandline.Item{
			{Term: "0", Text: "Done."},
			{Term: "1", Text: "Failed; standard error has the reason."},
			{Term: "2", Text: "Wrong usage."},
		}},
	}}
}
