package demo

import (
	"embed"
	"fmt"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/inventory"
)

// Names of the teams.
const (
	harbour    = "Harbour"
	lighthouse = "Lighthouse"
	breakwater = "Breakwater"
)

// files are the inventories of the teams.
//
//go:embed harbour.yaml lighthouse.yaml breakwater.yaml
var files embed.FS

// A history is the input of the generator beside the inventory of a team.
type history struct {
	team                string
	incidents, actions  int            // numbers of them
	commands            map[string]int // numbers of them, by server
	shares              map[string]int // percentages of incidents that are attached to a page, by page
	neverSeen, neverRan map[string]bool
	steady              map[string]bool // monitors that have always had their status
	neverChecked        map[string]bool
}

func histories() []history {
	return []history{
		{
			team: harbour, incidents: 160, actions: 300,
			commands: map[string]int{
				"web-01": 150, "web-02": 4, "web-03": 5, "web-04": 6, "web-05": 7, "web-06": 8, "web-07": 9, "web-08": 10,
				"db-primary":   34,
				"db-replica-1": 6, "db-replica-2": 2, "redis-1": 5, "search-1": 8, "worker-2": 2, "worker-3": 4, "worker-4": 6,
				"worker-5": 8,
				"worker-6": 10, "cron-1": 17, "edge-ams-1": 4, "edge-fra-1": 3, "edge-nyc-1": 6, "edge-sin-1": 1, "bastion": 11,
			},
			shares:    map[string]int{"Harbour": 70, "Harbour internal": 10, "Partners": 5},
			neverSeen: map[string]bool{"edge-syd-1": true}, neverRan: map[string]bool{"Report disk usage": true},
			steady: map[string]bool{"Mail relay": true},
		},
		{
			team: lighthouse, incidents: 18, actions: 40,
			commands: map[string]int{"render-1": 9, "render-2": 4, "shop-1": 12, "shop-2": 3},
			shares:   map[string]int{"Lighthouse": 60},
			steady:   map[string]bool{"Storefront certificate": true}, neverChecked: map[string]bool{"New landing page": true},
		},
		{
			team: breakwater, incidents: 3, actions: 6, commands: map[string]int{"main-1": 2},
			shares: map[string]int{"Breakwater": 50},
			steady: map[string]bool{"Website": true},
		},
	}
}

// loadTeam returns the inventory of a team.
func loadTeam(name string) (inventory.Team, error) {
	text, err := files.ReadFile(strings.ToLower(name) + ".yaml")
	if err != nil {
		return inventory.Team{}, fmt.Errorf("read the inventory: %w", err)
	}
	file, err := inventory.Parse(text)
	if err != nil {
		return inventory.Team{}, fmt.Errorf("parse the inventory: %w", err)
	}
	return file.Teams[0], nil
}

// complete adds the ids of the demo data and the state at its time.
func (t *teamSeeder) complete() {
	t.ID, t.CreatedAt = teamID(t.Name), t.before(400*day)
	for i := range t.Groups {
		t.Groups[i].ID = t.id("group", t.Groups[i].Name)
	}
	for i := range t.Servers {
		t.completeServer(&t.Servers[i])
	}
	for i := range t.Monitors {
		t.completeMonitor(&t.Monitors[i])
	}
	for i := range t.Pages {
		p := &t.Pages[i]
		p.ID, p.CreatedAt = t.id("page", p.Name), t.before(300*day-time.Duration(i)*31*day)
		for j := range p.Components {
			p.Components[j].ID = t.id("component", p.Name+"/"+p.Components[j].Name)
		}
	}
}

func (t *teamSeeder) completeServer(s *inventory.Server) {
	r := t.random("server", s.Name)
	s.ID, s.CreatedAt = t.id("server", s.Name), t.before(Between(r, 40*day, 390*day))
	if !t.neverSeen[s.Name] {
		s.LastSeenAt = t.before(Between(r, 2*time.Second, time.Minute))
	}
	r = t.random("scheduled", s.Name)
	for i := range s.Scheduled {
		c := &s.Scheduled[i]
		c.ID = t.id("scheduled", s.Name+"/"+c.Name)
		if !t.neverRan[c.Name] {
			c.LastRunAt, c.LastExitCode = t.before(Between(r, time.Minute, 20*time.Hour)), min(c.Failures, 1)
		}
	}
}

// completeMonitor adds the state that follows from the checks of a monitor. With the time of the
// last one, all are late ones, and no rule applies to them.
func (t *teamSeeder) completeMonitor(m *inventory.Monitor) {
	m.ID = t.id("monitor", m.Name)
	if t.neverChecked[m.Name] {
		return
	}
	checks := t.checksOf(*m)
	m.LastCheckAt = checks[len(checks)-1].GetCheckedAt().AsTime()
	for i := len(checks) - 1; i > 0 && m.LastChangeAt.IsZero(); i-- {
		if checks[i].GetStatus() != checks[i-1].GetStatus() {
			m.LastChangeAt = checks[i].GetCheckedAt().AsTime()
		}
	}
	t.checks = append(t.checks, checks...)
}
