-- Reads the statuses of gateways, and removes what is no status or too old. In the future is before the clock was set back.
-- KEYS[1]: hash of gateways, see write_status.lua.
-- ARGV[1]: maximum of gateways. ARGV[2], ARGV[3]: maximum length of an id and of a value; longer ones are left out.
-- ARGV[4]: ms without a heartbeat for which a status is kept.
-- Returns the server's time in ms, and then id and value of each gateway.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local found = {now}
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) + 1 then -- + 1: write_status.lua checks, then adds
  return redis.error_reply('ERR more gateways than can be read')
end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local at = tonumber(string.match(all[i + 1], '^(%d+) '))
  if not at or math.abs(now - at) > tonumber(ARGV[4]) then
    redis.pcall('HDEL', KEYS[1], all[i]) -- a server that refuses writes can still be read
  elseif #all[i] <= tonumber(ARGV[2]) and #all[i + 1] <= tonumber(ARGV[3]) then
    table.insert(found, all[i])
    table.insert(found, all[i + 1])
  end
end
return found
