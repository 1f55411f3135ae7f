package demo

import (
	"fmt"
	"slices"
)

func harbourInventory() inventory {
	return inventory{
		team: harbour, plan: "ai", incidentCount: 160, auditCount: 300,
		groups: []group{
			{"Web", "#2563eb"}, {"Databases", "#7c3aed"}, {"Workers", "#ea580c"}, {"Edge", "#0891b2"},
		},
		servers:  harbourServers(),
		monitors: harbourMonitors(),
		pages:    harbourPages(),
	}
}

func harbourServers() []server {
	servers := slices.Concat(webServers(), databaseServers(), workerServers(), edgeServers())
	return append(servers, server{name: "bastion", os: debian, tags: []string{"ssh", "audited"}, commands: 11})
}

func webServers() []server {
	var servers []server
	for i := range 8 {
		servers = append(servers, server{
			name: fmt.Sprintf("web-%02d", i+1), group: "Web", os: ubuntu, tags: []string{"web", "production"}, commands: 3 + i,
		})
	}
	servers[0].commands = 150
	servers[0].scheduled = []scheduled{
		{name: "Rotate logs", command: "logrotate /etc/logrotate.conf", cron: "5 0 * * *"},
		{name: "Renew certificates", command: "certbot renew --quiet", cron: "30 3 * * 1"},
		{name: "Sync static assets", command: "/srv/app/bin/sync-assets --delete", cron: "*/20 * * * *", failures: 4},
		{name: "Warm the page cache", command: "/srv/app/bin/warm-cache top-500", cron: "0 6 * * *", disabled: true},
		{name: "Report disk usage", command: "df --output=target,pcent", cron: "0 8 1 * *", neverRan: true},
	}
	servers[7].tags = []string{"web", "canary"}
	return servers
}

func databaseServers() []server {
	backup := scheduled{name: "Back up", command: "pg_dump --format=custom --file=/backup/orders.dump orders", cron: "0 1 * * *"}
	vacuum := scheduled{name: "Vacuum", command: "vacuumdb --all --analyze", cron: "0 4 * * 0", disabled: true, failures: 1}
	return []server{
		{name: "db-primary", group: "Databases", os: debian, tags: []string{"postgres", "primary", "production"},
			commands: 34, scheduled: []scheduled{backup, vacuum}},
		{name: "db-replica-1", group: "Databases", os: debian, tags: []string{"postgres", "replica"}, commands: 6},
		{name: "db-replica-2", group: "Databases", os: debian, tags: []string{"postgres", "replica"}, commands: 2,
			scheduled: []scheduled{{name: "Check replication lag", command: "/usr/local/bin/replication-lag --warn 30",
				cron: "*/5 * * * *", failures: 12}}},
		{name: "redis-1", group: "Databases", os: debian, tags: []string{"redis"}, commands: 5},
		{name: "redis-2", group: "Databases", os: debian, tags: []string{"redis"}},
		{name: "search-1", group: "Databases", os: alma, tags: []string{"opensearch"}, commands: 8},
	}
}

func workerServers() []server {
	var servers []server
	for i := range 6 {
		servers = append(servers, server{
			name: fmt.Sprintf("worker-%d", i+1), group: "Workers", os: ubuntu, tags: []string{"jobs"}, commands: 2 * i,
		})
	}
	return append(servers, server{
		name: "cron-1", group: "Workers", os: ubuntu, tags: []string{"jobs", "singleton"}, commands: 17,
		scheduled: []scheduled{
			{name: "Send invoices", command: "/srv/billing/bin/send-invoices", cron: "0 7 1 * *"},
			{name: "Expire sessions", command: "/srv/app/bin/expire-sessions --older-than 30d", cron: "*/10 * * * *"},
		},
	})
}

func edgeServers() []server {
	return []server{
		{name: "edge-ams-1", group: "Edge", os: alma, tags: []string{"edge", "eu"}, commands: 4},
		{name: "edge-fra-1", group: "Edge", os: alma, tags: []string{"edge", "eu"}, commands: 3},
		{name: "edge-nyc-1", group: "Edge", os: alma, tags: []string{"edge", "us"}, commands: 6},
		{name: "edge-sin-1", group: "Edge", os: alma, tags: []string{"edge", "ap"}, commands: 1},
		{name: "edge-syd-1", group: "Edge", os: alma, tags: []string{}, neverSeen: true},
	}
}

func harbourMonitors() []monitor {
	return []monitor{
		{name: "Booking API", kind: "http", target: "https://api.harbour.example/healthz", interval: 60, status: "up"},
		{name: "Customer portal", kind: "http", target: "https://portal.harbour.example/", interval: 120, status: "degraded"},
		{name: "Partner webhook gateway", kind: "http", target: "https://hooks.harbour.example/ping", interval: 300, status: "down"},
		{name: "Orders database", kind: "tcp", target: "db-primary.harbour.example:5432", interval: 120, status: "up"},
		{name: "Mail relay", kind: "tcp", target: "smtp.harbour.example:587", interval: 300, status: "up", steady: true},
		{name: "Amsterdam edge", kind: "ping", target: "edge-ams-1.harbour.example", interval: 300, status: "up"},
		{name: "Singapore edge", kind: "ping", target: "edge-sin-1.harbour.example", interval: 300, status: "degraded"},
		{name: "Public name servers", kind: "dns", target: "harbour.example", interval: 300, status: "up"},
		{name: "Internal zone", kind: "dns", target: "corp.harbour.example", interval: 600, status: "down", disabled: true},
		{name: "Portal certificate", kind: "ssl", target: "portal.harbour.example:443", interval: 900, status: "up"},
		{name: "API certificate", kind: "ssl", target: "api.harbour.example:443", interval: 900, status: "up"},
		{name: "Timetable shows departures", kind: "keyword", target: "https://portal.harbour.example/timetable",
			interval: 300, status: "up"},
	}
}

func harbourPages() []page {
	return []page{
		{
			name: "Harbour", host: "status.harbour.example", slug: "harbour", visibility: "public", color: "#2563eb",
			description: "Bookings, portal and partner connections at a glance.", share: 70,
			components: []component{
				{name: "Customer portal", monitor: "Customer portal"},
				{name: "Booking API", group: "API", monitor: "Booking API"},
				{name: "Webhooks", group: "API", monitor: "Partner webhook gateway"},
				{name: "Europe", group: "Edge network", monitor: "Amsterdam edge"},
				{name: "Asia", group: "Edge network", monitor: "Singapore edge"},
				{name: "Phone support", status: "operational"},
			},
		},
		{
			name: "Harbour internal", host: "internal-status.harbour.example", slug: "internal", visibility: "password",
			color: "#7c3aed", description: "For staff: databases, mail and names.", share: 10,
			components: []component{
				{name: "Orders database", group: "Databases", monitor: "Orders database"},
				{name: "Search", group: "Databases", status: "degraded"},
				{name: "Mail", monitor: "Mail relay"},
				{name: "Name servers", monitor: "Public name servers"},
			},
		},
		{
			name: "Harbour classic", host: "classic.harbour.example", slug: "classic", visibility: "public", color: "#64748b",
			description: "The booking system of before, kept for reference.", suspended: true,
			components: []component{
				{name: "Classic booking", status: "maintenance"},
				{name: "Classic reports", group: "Reports", status: "operational"},
			},
		},
		{
			name: "Partners", host: "partners.harbour.example", slug: "partners", visibility: "public", color: "#ea580c",
			share: 5,
			components: []component{
				{name: "Timetable feed", monitor: "Timetable shows departures"},
				{name: "Certificates", group: "Security", monitor: "API certificate"},
				{name: "Onboarding", status: "operational"},
			},
		},
	}
}
