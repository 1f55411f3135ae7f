-- Writes the status of a gateway.
-- KEYS[1]: hash of gateways by id; a value is the server's time in ms, a space, and the status.
-- ARGV[1]: id of this gateway. ARGV[2]: its status. ARGV[3]: ms without a heartbeat for which a status is kept.
-- ARGV[4]: maximum of gateways. ARGV[5]: '1' to remove statuses older than ARGV[3]. A gateway does so once, with its first status, because
-- only gateways that start add entries.
local t = redis.call('TIME')
local now, kept = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[3])
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then
  redis.call('DEL', KEYS[1]) -- too many entries, from gateways in a crash loop: drop all, and running gateways write theirs again
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], 2678400000) -- 31 days, see heartbeat.lua
if ARGV[5] == '1' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '^(%d+) '))
    if not at or math.abs(now - at) > kept then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
return 1
