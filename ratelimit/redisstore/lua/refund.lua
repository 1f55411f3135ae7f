-- refund.lua gives back what an admission spent, where that still counts, and then tells all gateways.
--
-- KEYS[1] the token's account
-- ARGV[1] the serial of the admission
-- ARGV[2] when it was, in µs
-- ARGV[3] 's' if it was spent in shadow, too
-- ARGV[4] the time in µs; '' for the server's
-- ARGV[5], ARGV[6] the channel, and the token
local account = library()
local value = redis.call('GET', KEYS[1])
if not value then
  return '0'
end
local now = tonumber(ARGV[4])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local a = account.decode(value, now)
account.advance(a, now)
local serial, at = tonumber(ARGV[1]), tonumber(ARGV[2])

-- give_back returns whether the group had spent it.
local function give_back(g)
  if serial < g.first or serial > g.serial then
    return false
  end
  if g.serial - serial < 128 then -- else the history does not reach back to it
    if not account.is_spent(g, serial) then
      return false
    end
    local newer = 0 -- so many admissions of the history are newer
    for n = serial + 1, g.serial do
      if account.is_spent(g, n) then
        newer = newer + 1
      end
    end
    g.void = account.marked(g.void, serial, true)
    if newer < #g.hist then
      table.remove(g.hist, newer + 1)
    elseif newer - #g.hist < g.rest then
      g.rest = g.rest - 1
    end
  end
  for _, r in ipairs(g.rings) do
    account.ring_remove(r, at)
  end
  return true
end

local given = false
for i, g in ipairs(a.groups) do
  if i == 1 or ARGV[3] == 's' then
    given = give_back(g) or given
  end
end
if not given then
  return '0'
end
redis.call('SET', KEYS[1], account.encode(a), 'KEEPTTL')
redis.call('PUBLISH', ARGV[5], ARGV[6])
return '1'
