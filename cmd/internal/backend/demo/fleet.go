package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/cmd/internal/backend/inventory"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// insertFleet inserts the metrics and the commands of all servers.
func (t *teamSeeder) insertFleet(ctx context.Context) error {
	for _, s := range t.Servers {
		if !t.neverSeen[s.Name] {
			if err := t.insertMetrics(ctx, s); err != nil {
				return err
			}
		}
		if err := t.insertCommands(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// The lateCommand newest command of a server waited until the server was connected again, so the
// order by the times of start differs from that by the times of creation.
const (
	lateCommand = 20
	lateBy      = 8 * time.Hour
)

// insertCommands inserts a server's commands. The newest are queued or running.
func (t *teamSeeder) insertCommands(ctx context.Context, s inventory.Server) error {
	r := t.random("history", s.Name)
	age := Between(r, time.Minute, time.Hour)
	for i := range t.commands[s.Name] {
		c := &ingestv1.ServerCommand{
			Id: t.id("command", fmt.Sprint(s.Name, "/", i)), ServerId: s.ID,
			Command: Pick(r, commandTexts()), Source: Pick(r, sources()), CreatedAt: timestamppb.New(t.before(age)),
			Status: commandStatus(r, i),
		}
		runCommand(r, c)
		if i == lateCommand {
			c.StartedAt = timestamppb.New(c.GetStartedAt().AsTime().Add(lateBy))
			c.FinishedAt = timestamppb.New(c.GetFinishedAt().AsTime().Add(lateBy))
		}
		if err := t.recorder.Command(ctx,
			&ingestv1.CommandItem{Item: &ingestv1.CommandItem_Command{Command: c}}); err != nil {
			return fmt.Errorf("insert command %d of %s: %w", i, s.Name, err)
		}
		age += Between(r, time.Minute, 5*time.Hour)
	}
	return nil
}

// commandStatus returns the status of the i-th newest command.
func commandStatus(r *rand.Rand, i int) string {
	switch i {
	case 0:
		return "queued"
	case 1:
		return "running"
	default:
		return Pick(r, finalStatuses())
	}
}

// finalStatuses returns the statuses of commands that ended, as often as they occur.
func finalStatuses() []string {
	return []string{
		"succeeded", "succeeded", "succeeded", "succeeded", "succeeded", "succeeded", "failed", "failed", "cancelled",
		"timed_out",
	}
}

// runCommand sets the times and the exit code according to the command's status.
func runCommand(r *rand.Rand, c *ingestv1.ServerCommand) {
	if c.GetStatus() == "queued" {
		return
	}
	started := c.GetCreatedAt().AsTime().Add(Between(r, 20*time.Millisecond, 900*time.Millisecond))
	c.StartedAt = timestamppb.New(started)
	if c.GetStatus() == "running" {
		return
	}
	c.FinishedAt = timestamppb.New(started.Add(Between(r, 40*time.Millisecond, 30*time.Second)))
	code := exitCode(r, c.GetStatus())
	c.ExitCode = &code
}

// exitCode returns the exit code of a command that ended with the status.
func exitCode(r *rand.Rand, status string) int32 {
	codes := map[string]int32{
		"succeeded": 0, "failed": Pick(r, []int32{1, 1, 2, 126, 127}), "cancelled": 130, "timed_out": 124,
	}
	return codes[status]
}

// sources returns the origins of commands, as often as they occur.
func sources() []string { return []string{"manual", "manual", "terminal", "terminal", "copilot"} }

// commandTexts returns what people run.
func commandTexts() []string {
	return []string{
		"uptime", "df -h", "free -m", "systemctl status nginx", "systemctl restart app",
		"journalctl -u app --since '1 hour ago'",
		"docker ps --format '{{.Names}} {{.Status}}'", "tail -n 200 /var/log/nginx/error.log", "apt list --upgradable",
		"ss -tlnp", "ps aux --sort=-%mem | head", "du -sh /var/lib/* | sort -h", "curl -fsS http://127.0.0.1:8080/healthz",
		"nginx -t && systemctl reload nginx", "git -C /srv/app log -1 --oneline", "redis-cli info memory", "vmstat 1 5",
		"psql -c 'SELECT count(*) FROM pg_stat_activity'", "openssl x509 -enddate -noout -in /etc/ssl/app.pem",
		"grep -c ' 502 ' /var/log/nginx/access.log",
	}
}
