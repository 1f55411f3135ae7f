-- account.lua decides a request on a token's account, merges accounts, and refunds an admission. It is a translation of package ratelimit
-- (account.go, usage.go, rebase.go, shared.go): functions have the names that they have there, and TestTheScriptKeepsTheAccountsThatMemoryKeeps
-- compares the accounts of both, byte by byte. docs/rate-limiter.md has the bytes and the rules.
--
-- KEYS[1]  the token's account
-- ARGV[1]  decide, peek, merge or refund
-- ARGV[2]  the time in µs since 1970, '' for that of the server
-- refund:  ARGV[3] time of the admission in µs, ARGV[4] '1' if limits in shadow recorded it, ARGV[5] the channel, ARGV[6] the token
-- others:  ARGV[3] header of the policy, ARGV[4] account to merge by union, ARGV[5] account to add; '' for none
--
-- refund returns '1' if it changed the account, else '0'. Others return the time (7 bytes), the outcome (1 byte: 0 denied, 1 admitted,
-- 2 admitted, but not by the limits in shadow, 3 peek or merge; plus 128 if the value under the key was no account), and the account.
--
-- For readers new to Lua: indexes begin at 1, a string is bytes, # is a length, .. joins strings, ~= is "not equal". A number is a double,
-- exact up to 2^53. struct.unpack returns the decoded values and then the next index; formats are I<bytes>, little endian after '<'.
local FORM, MAX_LIMITS, MAX_EXACT, BUCKETS, RING, EARLIEST = 2, 4, 64, 61, 128, 2 ^ 43
local byte, char, rep, sub, pack, unpacked = string.byte, string.char, string.rep, string.sub, struct.pack, struct.unpack
local min, max = math.min, math.max

local function quotient(a, b) return (a - a % b) / b end

local function count_bytes(n) return n < 256 and 1 or n < 65536 and 2 or 4 end

-- rules_of decodes the limits of a header; nil if it is none.
local function rules_of(header)
  local form, n = byte(header, 1, 2)
  if form ~= FORM or not n or n < 1 or n > MAX_LIMITS or #header ~= 2 + 11 * n then
    return nil
  end
  local fields, rules = {unpacked('<' .. rep('I4I6B', n), header, 3)}, {}
  for i = 1, n do
    local requests, per, shadow = fields[3 * i - 2], fields[3 * i - 1], fields[3 * i]
    if requests < 1 or requests > 1e9 or per < 1 or shadow > 1 then
      return nil
    end
    rules[i] = {requests = requests, per = per, width = quotient(per + BUCKETS - 2, BUCKETS - 1), shadow = shadow == 1,
      exact = requests <= MAX_EXACT}
  end
  return rules
end

local policy -- of the caller: {header, rules}; none to refund

-- decode returns the account as a table, nil if the value is no account. A state is {times = {oldest, ...}} or a ring:
-- {newest = number of the newest bucket, size = bytes of a count, counts = string}.
local function decode(value)
  local at = 3 + 11 * (byte(value, 2) or 0)
  local header = sub(value, 1, at - 1)
  local rules
  if policy and header == policy.header then
    rules = policy.rules
  else
    rules = rules_of(header)
  end
  if not rules or #value < at + 6 then
    return nil
  end
  local a = {header = header, rules = rules, states = {}, since = unpacked('<I7', value, at)}
  at = at + 7
  for i, r in ipairs(rules) do
    local tag = byte(value, at)
    if not tag then
      return nil
    elseif tag < RING then
      if tag > MAX_EXACT or not r.exact or #value < at + 7 * tag then
        return nil
      end
      local times = {unpacked('<' .. rep('I7', tag), value, at + 1)}
      times[tag + 1] = nil
      for k = 2, tag do
        if times[k] < times[k - 1] then
          return nil
        end
      end
      a.states[i], at = {times = times}, at + 1 + 7 * tag
    else
      local size = tag - RING
      local next_at = at + 7 + BUCKETS * size
      if size ~= 1 and size ~= 2 and size ~= 4 or size < count_bytes(r.requests) or next_at > #value + 1 then
        return nil
      end
      a.states[i] = {newest = unpacked('<I6', value, at + 1), size = size, counts = sub(value, at + 7, next_at - 1)}
      at = next_at
    end
  end
  return at == #value + 1 and a or nil
end

local function encode(a)
  local value = a.header .. pack('<I7', a.since)
  for _, s in ipairs(a.states) do
    if s.times then
      local n = #s.times
      value = value .. char(n) .. pack('<' .. rep('I7', n), unpack(s.times))
    else
      value = value .. char(RING + s.size) .. pack('<I6', s.newest) .. s.counts
    end
  end
  return value
end

local function get(ring, b)
  return (unpacked('<I' .. ring.size, ring.counts, b % BUCKETS * ring.size + 1))
end

local function set(ring, b, n)
  local at, size = b % BUCKETS * ring.size, ring.size
  ring.counts = sub(ring.counts, 1, at) .. pack('<I' .. size, min(n, 256 ^ size - 1)) .. sub(ring.counts, at + size + 1)
end

-- clear sets the counts of buckets from first to last to zero.
local function clear(ring, first, last)
  local n, from, size, counts = min(BUCKETS, last - first + 1), first % BUCKETS, ring.size, ring.counts
  local wrapped = max(0, from + n - BUCKETS) -- so many of them are at the beginning
  ring.counts = rep('\0', wrapped * size) .. sub(counts, wrapped * size + 1, from * size) .. rep('\0', (n - wrapped) * size)
    .. sub(counts, (from + n - wrapped) * size + 1)
end

-- add counts n more admissions at t in a ring, and returns whether it has room for that.
local function add(ring, width, t, n)
  local b = quotient(t, width)
  local holds = b <= ring.newest and b > ring.newest - BUCKETS and get(ring, b) + n >= 0
  if holds then
    set(ring, b, get(ring, b) + n)
  end
  return holds
end

-- total is how many admissions a ring counts.
local function total(ring)
  local sum, size, digits = 0, ring.size, {byte(ring.counts, 1, -1)}
  for i = 1, size do
    local n = 0
    for at = i, #digits, size do
      n = n + digits[at]
    end
    sum = sum + n * 256 ^ (i - 1)
  end
  return sum
end

-- advance drops what left its window, and moves what is in the future to now. It returns whether it moved anything.
local function advance(a, now)
  local moved = a.since > now
  a.since = min(a.since, now)
  for i, r in ipairs(a.rules) do
    local s = a.states[i]
    if s.times then
      local times = s.times
      local n, gone = #times, 0
      while gone < n and times[gone + 1] + r.per <= now do
        gone = gone + 1
      end
      if gone > 0 then
        s.times = {unpack(times, gone + 1)}
      end
      for k = #s.times, 1, -1 do
        if s.times[k] <= now then
          break
        end
        s.times[k], moved = now, true
      end
    else
      local present, future = quotient(now, r.width), 0
      if s.newest > present then
        for b = max(present, s.newest - BUCKETS) + 1, s.newest do
          future = future + get(s, b)
          set(s, b, 0)
        end
      elseif s.newest < present then
        clear(s, s.newest + 1, present)
      end
      s.newest = present
      if future > 0 then
        set(s, present, get(s, present) + future)
        moved = true
      end
    end
  end
  return moved
end

-- buckets lists what a state records from no later than an instant on, oldest first: n admissions between two instants, both inclusive.
local function buckets(r, s, latest)
  local list = {}
  for _, t in ipairs(s.times or {}) do
    list[#list + 1] = t <= latest and {to = t, n = 1} or nil
  end
  for b = (s.newest or 0) - BUCKETS + 1, s.newest or -BUCKETS do
    local n = get(s, b)
    list[#list + 1] = n > 0 and b * r.width <= latest and {to = (b + 1) * r.width - 1, n = n} or nil
  end
  return list
end

-- merge merges two lists in the order of time. With union, what both have counts once.
local function merge(a, b, union)
  local list, i, k, none = {}, 1, 1, {to = math.huge}
  while a[i] or b[k] do
    local x, y = a[i] or none, b[k] or none
    local xn, yn = x.to <= y.to and x.n or 0, y.to <= x.to and y.n or 0
    list[#list + 1] = {to = min(x.to, y.to), n = union and max(xn, yn) or xn + yn}
    i, k = i + min(xn, 1), k + min(yn, 1)
  end
  return list
end

-- state returns the state of a limit with what is in a list.
local function state(r, list, now)
  local counted, n, times = {}, 0, {}
  for _, b in ipairs(list) do
    if not r.exact or b.to + r.per > now then
      counted[#counted + 1], n = b, n + b.n
    end
  end
  if not r.exact or n > MAX_EXACT then
    local size = count_bytes(max(n, r.requests))
    local ring = {newest = quotient(now, r.width), size = size, counts = rep('\0', BUCKETS * size)}
    for _, b in ipairs(counted) do
      add(ring, r.width, min(b.to, now), b.n)
    end
    return ring
  end
  for _, b in ipairs(counted) do
    for _ = 1, b.n do
      times[#times + 1] = min(b.to, now)
    end
  end
  return {times = times}
end

-- best is the index of the limit with the shortest window that is no shorter than per, or else with the longest; nil for none.
local function best(rules, per, shadow)
  local found
  for i, r in ipairs(rules) do
    local f = rules[found]
    if r.shadow == shadow and (not f or f.per < per and r.per > f.per or r.per >= per and r.per < f.per) then
      found = i
    end
  end
  return found
end

-- fill returns what the state of a limit is to hold from the account of another policy, and since when that is all.
local function fill(r, old, now)
  local list, latest = {}, now
  for _, shadow in ipairs({r.shadow, not r.shadow}) do
    local i = best(old.rules, r.per, shadow)
    local from, s = old.rules[i], old.states[i]
    local complete = from and (s.times and now - from.per + 1 or (s.newest - BUCKETS + 1) * from.width)
    if from and complete <= latest then
      list, latest = merge(buckets(from, s, latest), list, false), complete - 1
      if from.per >= r.per then
        return list, r.exact and 0 or latest + 1 -- an exact limit has all that counts, with its time
      end
    end
  end
  return list, latest + 1
end

-- rebase returns the account of the caller's policy with the usage of another one.
local function rebase(old, now)
  local a = {header = policy.header, rules = policy.rules, states = {}, since = old.since}
  for i, r in ipairs(a.rules) do
    local list, from = fill(r, old, now)
    a.states[i], a.since = state(r, list, now), max(a.since, min(from, now))
  end
  return a
end

-- under returns an account under the caller's policy, advanced to now, and whether it is to be written.
local function under(value, now)
  local a = decode(value)
  local moved = a and advance(a, now)
  if a and a.header == policy.header then
    return a, moved
  end
  return rebase(a or {rules = {}, states = {}, since = now}, now), a ~= nil, not a and value ~= ''
end

local op, now, value = ARGV[1], tonumber(ARGV[2]), redis.pcall('GET', KEYS[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
now = max(now, EARLIEST)
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value
  end
  value = 'of another type'
end
value = value or ''

if op == 'refund' then
  local a, t, changed = decode(value), tonumber(ARGV[3]), false
  for i, r in ipairs(a and a.rules or {}) do
    local s = a.states[i]
    for k = (r.shadow and ARGV[4] ~= '1') and 0 or #(s.times or {}), 1, -1 do
      if s.times[k] == t then
        table.remove(s.times, k)
        changed = true
        break
      end
    end
    if s.counts and t >= a.since and (not r.shadow or ARGV[4] == '1') then
      changed = add(s, r.width, t, -1) or changed
    end
  end
  if changed then
    redis.call('SET', KEYS[1], encode(a), 'KEEPTTL')
    redis.call('PUBLISH', ARGV[5], ARGV[6])
  end
  return changed and '1' or '0'
end

policy = {header = ARGV[3], rules = rules_of(ARGV[3])}
local a, write, discarded = under(value, now)
for arg = 4, 5 do
  if ARGV[arg] ~= '' then
    local b = under(ARGV[arg], now)
    a.since, write = min(a.since, b.since), true
    for i, r in ipairs(a.rules) do
      a.states[i] = state(r, merge(buckets(r, a.states[i], now), buckets(r, b.states[i], now), arg == 4), now)
    end
  end
end

local outcome = 3
if op == 'decide' then
  local full, shadow_full = false, false
  for i, r in ipairs(a.rules) do
    local s = a.states[i]
    if (s.times and #s.times or total(s)) >= r.requests then
      full, shadow_full = full or not r.shadow, shadow_full or r.shadow
    end
  end
  outcome = full and 0 or shadow_full and 2 or 1
end
if outcome == 1 or outcome == 2 then
  for i, r in ipairs(a.rules) do
    local s = a.states[i]
    if r.shadow and outcome == 2 then -- not recorded
    elseif s.times then
      s.times[#s.times + 1] = now
    elseif r.exact then -- less counts than the limit admits: it is decided by single admissions again
      local list = buckets(r, s, now)
      list[#list + 1] = {to = now, n = 1}
      a.states[i] = state(r, list, now)
    else
      add(s, r.width, now, 1)
    end
  end
  write = true
end
value = encode(a)
if write and op ~= 'peek' then
  if ARGV[2] == '' then
    local keep = 0
    for _, r in ipairs(a.rules) do
      keep = max(keep, r.per + r.width)
    end
    redis.call('SET', KEYS[1], value, 'PX', math.ceil(keep / 1000))
  else
    redis.call('SET', KEYS[1], value)
  end
end
return pack('<I7B', now, outcome + (discarded and 128 or 0)) .. value
