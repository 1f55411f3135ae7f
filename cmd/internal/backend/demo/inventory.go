package demo

// Names of the teams.
const (
	harbour    = "Harbour"
	lighthouse = "Lighthouse"
	breakwater = "Breakwater"
)

// Operating systems, as agents report them.
const (
	ubuntu = "Ubuntu 24.04 LTS"
	debian = "Debian GNU/Linux 13"
	alma   = "AlmaLinux 9.6"
)

// An inventory lists the named resources of a team. The generator creates the others.
type inventory struct {
	team, plan    string
	groups        []group
	servers       []server
	monitors      []monitor
	pages         []page
	incidentCount int
	auditCount    int
}

type group struct{ name, color string }

// A server of the team. group is the name of one of the team's groups, or empty.
type server struct {
	name, group, os string
	tags            []string
	commands        int // entries in its history
	scheduled       []scheduled
	neverSeen       bool
}

type scheduled struct {
	name, command, cron string
	disabled            bool
	failures            int
	neverRan            bool
}

// A monitor of the team with its present status. A steady monitor has always had this status.
type monitor struct {
	name, kind, target string
	interval           int // seconds
	status             string
	steady, disabled   bool
	neverChecked       bool
}

type page struct {
	name, host, slug, visibility, color, description string
	suspended                                        bool
	share                                            int // percentage of incidents that are attached to it
	components                                       []component
}

// A component of a page. It has the status of the named monitor, or its own if monitor is empty.
type component struct{ name, group, monitor, status string }

func inventories() []inventory {
	return []inventory{harbourInventory(), lighthouseInventory(), breakwaterInventory()}
}

func lighthouseInventory() inventory {
	return inventory{
		team: lighthouse, plan: "ai", incidentCount: 18, auditCount: 40,
		groups: []group{{"Studio", "#0f766e"}, {"Storefront", "#b45309"}},
		servers: []server{
			{name: "render-1", group: "Studio", os: debian, tags: []string{"gpu"}, commands: 9},
			{name: "render-2", group: "Studio", os: debian, tags: []string{"gpu"}, commands: 4},
			{name: "shop-1", group: "Storefront", os: debian, tags: []string{"web"}, commands: 12,
				scheduled: []scheduled{{name: "Nightly backup", command: "/usr/local/bin/backup --all", cron: "15 2 * * *"}}},
			{name: "shop-2", group: "Storefront", os: debian, tags: []string{"web", "canary"}, commands: 3},
			{name: "vault-1", os: debian, tags: []string{}},
		},
		monitors: []monitor{
			{name: "Storefront", kind: "http", target: "https://shop.lighthouse.example/", interval: 300, status: "up"},
			{name: "Storefront certificate", kind: "ssl", target: "shop.lighthouse.example:443",
				interval: 900, status: "up", steady: true},
			{name: "Render queue", kind: "tcp", target: "render-1.lighthouse.example:5672", interval: 300, status: "down"},
			{name: "New landing page", kind: "keyword", target: "https://next.lighthouse.example/",
				interval: 300, status: "up", neverChecked: true},
		},
		pages: []page{{
			name: "Lighthouse", host: "status.lighthouse.example", slug: "lighthouse", visibility: "public", color: "#0f766e",
			description: "How our shop and studio are doing.", share: 60,
			components: []component{
				{name: "Shop", monitor: "Storefront"},
				{name: "Rendering", group: "Studio", monitor: "Render queue"},
				{name: "Support desk", status: "operational"},
			},
		}},
	}
}

func breakwaterInventory() inventory {
	return inventory{
		team: breakwater, plan: "basic", incidentCount: 3, auditCount: 6,
		groups: []group{{"Servers", "#475569"}},
		servers: []server{
			{name: "main-1", group: "Servers", os: ubuntu, tags: []string{"web", "db"}, commands: 2},
			{name: "backup-1", group: "Servers", os: ubuntu, tags: []string{}},
		},
		monitors: []monitor{
			{name: "Website", kind: "http", target: "https://breakwater.example/", interval: 300, status: "up", steady: true},
		},
		pages: []page{{
			name: "Breakwater", host: "status.breakwater.example", slug: "breakwater", visibility: "public",
			color: "#475569", share: 50, components: []component{{name: "Website", monitor: "Website"}},
		}},
	}
}
