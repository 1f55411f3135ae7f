-- Changes of what opsbackend apply has created. Rows that exist are updated, because the bounds of rows apply to each insertion. The
-- parameters are those of the insertions, in the same order.

-- name: UpdateTeam :exec
UPDATE teams
SET id = sqlc.arg(id), name = sqlc.arg(name), plan = sqlc.arg(plan), created_at = sqlc.arg(created_at),
    limit_class = sqlc.arg(limit_class)
WHERE id = sqlc.arg(id);

-- name: UpdateServerGroup :exec
UPDATE server_groups
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), name = sqlc.arg(name), color = sqlc.arg(color), position = sqlc.arg(position)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: UpdateServer :exec
UPDATE servers
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), group_id = sqlc.arg(group_id), name = sqlc.arg(name), host = sqlc.arg(host),
    os = sqlc.arg(os), tags = sqlc.arg(tags), last_seen_at = sqlc.arg(last_seen_at), created_at = sqlc.arg(created_at)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: UpdateScheduledCommand :exec
UPDATE scheduled_commands
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), server_id = sqlc.arg(server_id), name = sqlc.arg(name),
    command = sqlc.arg(command), cron = sqlc.arg(cron), enabled = sqlc.arg(enabled), last_run_at = sqlc.arg(last_run_at),
    last_exit_code = sqlc.arg(last_exit_code), consecutive_failures = sqlc.arg(consecutive_failures)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: UpdateMonitor :exec
UPDATE monitors
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), name = sqlc.arg(name), type = sqlc.arg(type), target = sqlc.arg(target),
    status = sqlc.arg(status), enabled = sqlc.arg(enabled), interval_seconds = sqlc.arg(interval_seconds),
    last_check_at = sqlc.arg(last_check_at), last_status_change_at = sqlc.arg(last_status_change_at),
    opens_incidents = sqlc.arg(opens_incidents)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: UpdateStatusPage :exec
UPDATE status_pages
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), name = sqlc.arg(name), unique_hostname = sqlc.arg(unique_hostname),
    slug = sqlc.arg(slug), visibility = sqlc.arg(visibility), primary_color = sqlc.arg(primary_color),
    description = sqlc.arg(description), suspended = sqlc.arg(suspended), created_at = sqlc.arg(created_at)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);

-- name: UpdateComponent :exec
UPDATE components
SET id = sqlc.arg(id), team_id = sqlc.arg(team_id), status_page_id = sqlc.arg(status_page_id), monitor_id = sqlc.arg(monitor_id),
    name = sqlc.arg(name), group_name = sqlc.arg(group_name), position = sqlc.arg(position), status = sqlc.arg(status)
WHERE team_id = sqlc.arg(team_id) AND id = sqlc.arg(id);
