-- settle.lua adds what was spent while the store was away, and what was spent before if the store lost it.
--
-- KEYS[1] the token's account
-- ARGV[1] the signature of the policy
-- ARGV[2] how long the account is kept in ms; '' for ever
-- ARGV[3] the time in µs; '' for the server's
-- ARGV[4] what was spent before, ARGV[5] while it was away: age in µs and number of each, newest first
local account = library()
local now = tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local a = account.decode(redis.call('GET', KEYS[1]), now)
local known, added = account.known_of(a, now), {}

-- add takes what was spent before a time, and returns the oldest of it.
local function add(list, before)
  local oldest = now
  for at = 1, #list, 12 do
    local age, n = struct.unpack('<dI4', list, at)
    local t = now - age
    if t < before then
      table.insert(added, {at = t, n = n})
      oldest = math.min(oldest, t)
    end
  end
  return oldest
end
a.since = math.min(a.since, add(ARGV[4], a.unknown and math.huge or a.since))
add(ARGV[5], math.huge)
if #added == 0 then
  return '0'
end

for i, list in ipairs(known) do
  local all = {unpack(list)}
  for _, sp in ipairs(added) do
    table.insert(all, sp)
  end
  for k, sp in ipairs(all) do -- table.sort is not stable
    all[k] = {at = sp.at, n = sp.n, k = k}
  end
  table.sort(all, function(x, y)
    if x.at ~= y.at then
      return x.at > y.at
    end
    return x.k < y.k
  end)
  known[i] = all
end
local fresh = account.laid(a, ARGV[1], known, now)
for _, g in ipairs(fresh.groups) do
  g.first, g.void = g.serial + 1, '' -- which place a serial has among the others is not known any more
end
if ARGV[2] == '' then
  redis.call('SET', KEYS[1], account.encode(fresh))
else
  redis.call('SET', KEYS[1], account.encode(fresh), 'PX', ARGV[2])
end
return '1'
