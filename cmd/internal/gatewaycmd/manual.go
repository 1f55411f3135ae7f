package gatewaycmd

import (
	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/commandline"
)

// about returns what the manual page says beside the commands.
func about() commandline.About {
	return commandline.About{Build: buildinfo.Read(), Sections: []commandline.Section{
		{Title: "SIGNALS", Items: []commandline.Item{
			{Term: "SIGTERM, SIGINT", Text: "End in order: say so on /readyz, serve on until load balancers have noticed (shutdown.drain_wait), " +
				"take no new connections, and let requests in flight end (shutdown.grace). A second one ends at once."},
			{Term: "SIGHUP", Text: "Read the configuration. It is read when its files change as well. What is wrong with it changes nothing."},
		}},
		{Title: "FILES", Items: []commandline.Item{
			{Term: "/etc/opsgate/opsgate.yaml", Text: "The configuration, where neither --config nor $OPSGATE_CONFIG names another."},
		}},
		{Title: "ENVIRONMENT", Items: []commandline.Item{
			{Term: "OPSGATE_CONFIG", Text: "Path of the configuration file."},
			{Term: "OPSGATE_*", Text: "Every key of the configuration, over what the file says: the key in upper case, with _ for each dot."},
			{Term: "GOGC, GOMEMLIMIT, AUTOMEMLIMIT", Text: "How the garbage collector runs, the memory limit, and whether that follows " +
				"the container's (off: not)."},
			{Term: "NOTIFY_SOCKET", Text: "Where systemd is told of start, reload and end: see sd_notify(3)."},
		}},
		{Title: "EXIT STATUS", Items: []commandline.Item{
			{Term: "0", Text: "Done."},
			{Term: "1", Text: "Failed; standard error says why."},
			{Term: "2", Text: "Wrong usage."},
		}},
	}}
}
