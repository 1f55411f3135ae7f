-- Reads the statuses of gateways.
-- KEYS[1]: hash of gateways, see write_status.lua.
-- ARGV[1]: maximum of gateways. ARGV[2], ARGV[3]: maximum length of an id and of a value; longer ones are left out.
-- Returns the server's time in ms, and then id and value of each gateway.
local t = redis.call('TIME')
local found = {t[1] * 1000 + math.floor(t[2] / 1000)}
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) + 1 then -- + 1: write_status.lua checks, then adds
  return redis.error_reply('ERR more gateways than can be read')
end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if #all[i] <= tonumber(ARGV[2]) and #all[i + 1] <= tonumber(ARGV[3]) then
    table.insert(found, all[i])
    table.insert(found, all[i + 1])
  end
end
return found
