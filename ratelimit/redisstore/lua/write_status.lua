-- Writes the status of a gateway.
-- KEYS[1]: hash of gateways by id; a value is the server's time in ms, a space, and the status.
-- ARGV[1]: id of this gateway. ARGV[2]: its status. ARGV[3]: maximum of gateways.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[3]) then
  redis.call('DEL', KEYS[1]) -- too many entries, from gateways in a crash loop: drop all, and running gateways write theirs again
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], 2678400000) -- 31 days, see heartbeat.lua
return 1
