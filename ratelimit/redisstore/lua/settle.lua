-- settle.lua adds what was spent while the store was away, and what was spent before where the store has lost it, as far as no
-- other gateway has told of it.
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

local function list(packed)
  local spendings = {}
  for at = 1, #packed, 12 do
    local age, n = struct.unpack('<dI4', packed, at)
    table.insert(spendings, {at = now - age, n = n})
  end
  return spendings
end

-- lacking returns how much of what was spent before the account was made it does not know of. Another gateway may have told of
-- some, or of all. What a bucket holds that was spent since is taken for a part of it, too.
local function lacking(before)
  local n, newest, width = 0, nil, 0
  for _, sp in ipairs(before) do
    if a.unknown or sp.at < a.since then
      n, newest = n + sp.n, newest or sp.at
    end
  end
  if a.unknown or n == 0 then
    return n
  end
  for _, r in ipairs(a.groups[1].rings) do
    width = math.max(width, r.width)
  end
  for _, sp in ipairs(known[1]) do
    if sp.at <= newest + width then
      n = n - sp.n
    end
  end
  return n
end

local before = list(ARGV[4])
local left = lacking(before)
for _, sp in ipairs(before) do -- the newest, which count longest
  if left > 0 and (a.unknown or sp.at < a.since) then
    table.insert(added, {at = sp.at, n = math.min(sp.n, left)})
    left = left - sp.n
  end
end
for _, sp in ipairs(list(ARGV[5])) do
  table.insert(added, sp)
end
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
