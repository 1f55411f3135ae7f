-- account.lua decides a request on a token's account, merges accounts, and refunds an admission. It is the same algorithm as in package
-- ratelimit, in functions of the same names (account.go, usage.go, convert.go, shared.go). TestScriptDecidesAsThePackageDoes compares both,
-- byte by byte. docs/develop/rate-limiter.md describes the bytes and the rules.
--
-- KEYS[1]  the token's account
-- ARGV[1]  decide, peek, merge or refund;  ARGV[2] the time in µs since 1970, '' for the time of the server
-- refund:  ARGV[3] time of the admission in µs, ARGV[4] '1' if limits in shadow recorded it, ARGV[5] channel, ARGV[6] token id to publish
--          Returns '1' if it changed the account, else '0'.
-- others:  ARGV[3] header of the policy, ARGV[4] account to merge by union, ARGV[5] account to add; '' for none
--          Return the time (7 bytes), the outcome (1 byte: 0 denied, 1 admitted, 2 admitted by the enforced limits alone, 3 peek or
--          merge; plus 128 if the value of the key was not an account), and the account.
--
-- Lua: indexes begin at 1, a string is bytes, # is the length, .. concatenates, ~= is "not equal", {} is a table: an array or a record.
-- Numbers are doubles, exact up to 2^53. struct.unpack returns the values, then the next index; '<I7' is an unsigned integer of 7 bytes.
local VERSION, MAX_LIMITS, MAX_EXACT, BUCKETS, RING, EARLIEST, LATEST = 2, 4, 64, 61, 128, 2 ^ 43, 2 ^ 53
local byte, char, rep, sub, pack, struct_unpack = string.byte, string.char, string.rep, string.sub, struct.pack, struct.unpack
local min, max = math.min, math.max
local policy -- of the call: {header, rules}

local function quotient(a, b) return (a - a % b) / b end

local function count_bytes(n) return n < 256 and 1 or n < 65536 and 2 or 4 end

-- rules_of decodes the limits of a header; nil if it is not a header.
local function rules_of(header)
  local version, n = byte(header, 1, 2)
  if version ~= VERSION or not n or n < 1 or n > MAX_LIMITS or #header ~= 2 + 11 * n then return nil end
  local fields, rules = {struct_unpack('<' .. rep('I4I6B', n), header, 3)}, {}
  for i = 1, n do
    local requests, per, shadow = fields[3 * i - 2], fields[3 * i - 1], fields[3 * i]
    if requests < 1 or requests > 1e9 or per < 1 or shadow > 1 then return nil end
    local width = quotient(per + BUCKETS - 2, BUCKETS - 1)
    rules[i] = {requests = requests, per = per, width = width, shadow = shadow == 1, exact = requests <= MAX_EXACT}
  end
  return rules
end

-- decode_state decodes the state of a limit at an index. It returns the state, {times = {oldest, ...}} or a ring {newest = number of the
-- newest bucket, size = bytes of a count, counts = string}, and the next index; nil if the state is not valid.
local function decode_state(r, value, at)
  local tag = byte(value, at) or RING
  local size = tag - RING -- bytes of a count; negative for times
  local next_at = at + (size < 0 and 1 + 7 * tag or 7 + BUCKETS * size)
  if next_at > #value + 1 or size < 0 and not (tag <= MAX_EXACT and r.exact) then return nil end
  if size < 0 then
    local times = {struct_unpack('<' .. rep('I7', tag), value, at + 1)}
    times[tag + 1] = nil -- the next index
    for k = 2, tag do
      if times[k] < times[k - 1] then return nil end
    end
    if tag > 0 and times[tag] >= LATEST then return nil end
    return {times = times}, next_at
  end
  if size ~= 1 and size ~= 2 and size ~= 4 or size < count_bytes(r.requests) then return nil end
  local newest = struct_unpack('<I6', value, at + 1)
  if newest * r.width >= LATEST then return nil end
  return {newest = newest, size = size, counts = sub(value, at + 7, next_at - 1)}, next_at
end

-- decode returns the account as a table; nil if the value is not an account.
local function decode(value)
  local at = 3 + 11 * (byte(value, 2) or 0)
  local header = sub(value, 1, at - 1)
  local rules = policy and header == policy.header and policy.rules or rules_of(header)
  if not rules or #value < at + 6 then return nil end
  local a = {header = header, rules = rules, states = {}, since = struct_unpack('<I7', value, at)}
  if a.since >= LATEST then return nil end
  at = at + 7
  for i, r in ipairs(rules) do
    a.states[i], at = decode_state(r, value, at)
    if not at then return nil end
  end
  return at == #value + 1 and a or nil
end

local function encode(a)
  local value = a.header .. pack('<I7', a.since)
  for _, s in ipairs(a.states) do
    if s.times then
      value = value .. char(#s.times) .. pack('<' .. rep('I7', #s.times), unpack(s.times))
    else
      value = value .. char(RING + s.size) .. pack('<I6', s.newest) .. s.counts
    end
  end
  return value
end

local function get(ring, b) return (struct_unpack('<I' .. ring.size, ring.counts, b % BUCKETS * ring.size + 1)) end

local function set(ring, b, n)
  local at, size = b % BUCKETS * ring.size, ring.size
  ring.counts = sub(ring.counts, 1, at) .. pack('<I' .. size, min(n, 256 ^ size - 1)) .. sub(ring.counts, at + size + 1)
end

-- clear sets the counts of the buckets from after + 1 to last to zero.
local function clear(ring, after, last)
  local n, from, size, counts = min(BUCKETS, last - after), (after + 1) % BUCKETS, ring.size, ring.counts
  local wrapped = max(0, from + n - BUCKETS) -- the last ones of these n buckets are at the beginning of counts: their number
  ring.counts = rep('\0', wrapped * size) .. sub(counts, wrapped * size + 1, from * size) .. rep('\0', (n - wrapped) * size)
    .. sub(counts, (from + n - wrapped) * size + 1)
end

-- add adds n to the bucket of t, and reports whether it did: it changes nothing if the ring does not have the bucket, or the count would be
-- negative.
local function add(ring, width, t, n)
  local b = quotient(t, width)
  local sum = b <= ring.newest and b > ring.newest - BUCKETS and get(ring, b) + n or -1
  if sum >= 0 then set(ring, b, sum) end
  return sum >= 0
end

-- count returns the number of admissions that count in a state.
local function count(s)
  if s.times then return #s.times end
  local one = 'I' .. s.size
  local counts, n = {struct_unpack('<' .. rep(rep(one, 10), 6) .. one, s.counts)}, 0
  for i = 1, BUCKETS do n = n + counts[i] end
  return n
end

-- advance drops admissions that left their window, and moves admissions in the future to now. It reports whether it moved any.
local function advance(a, now)
  local moved = a.since > now
  a.since = min(a.since, now)
  for i, r in ipairs(a.rules) do
    local s = a.states[i]
    if s.times then
      local kept = {}
      for _, t in ipairs(s.times) do
        if t + r.per > now then kept[#kept + 1], moved = min(t, now), moved or t > now end
      end
      s.times = kept
    else
      local newest, present, future = s.newest, quotient(now, r.width), 0
      if newest < present then clear(s, newest, present) end
      for b = max(present, newest - BUCKETS) + 1, newest do
        future = future + get(s, b)
        set(s, b, 0)
      end
      s.newest = present
      if future > 0 then moved = add(s, r.width, now, future) end
    end
  end
  return moved
end

-- buckets returns the admissions of a state up to latest, with those of the whole bucket that contains it, oldest first: n admissions, the
-- last one at to or before.
local function buckets(r, s, latest)
  local list = {}
  for _, t in ipairs(s.times or {}) do
    list[#list + 1] = t <= latest and {to = t, n = 1} or nil
  end
  for b = s.counts and s.newest - BUCKETS + 1 or 0, s.newest or -1 do -- none for times
    local n = b * r.width <= latest and get(s, b) or 0
    list[#list + 1] = n > 0 and {to = (b + 1) * r.width - 1, n = n} or nil
  end
  return list
end

-- merge merges two lists in the order of time. With union, admissions in both lists count once.
local function merge(a, b, union)
  local list, i, k, none = {}, 1, 1, {to = math.huge}
  while a[i] or b[k] do
    local x, y = a[i] or none, b[k] or none
    local xn, yn = x.to <= y.to and x.n or 0, y.to <= x.to and y.n or 0
    list[#list + 1] = {to = min(x.to, y.to), n = union and max(xn, yn) or xn + yn}
    i, k = i + min(xn, 1), k + min(yn, 1) -- past the entries that were merged
  end
  return list
end

-- state returns the state of a limit with the admissions of a list.
local function state(r, list, now)
  local n, counted, times = 0, {}, {}
  for _, b in ipairs(list) do
    if not r.exact or b.to + r.per > now then counted[#counted + 1], n = b, n + b.n end
  end
  local size = count_bytes(max(n, r.requests))
  local ring = {newest = quotient(now, r.width), size = size, counts = rep('\0', BUCKETS * size)}
  for _, b in ipairs(counted) do
    if r.exact and n <= MAX_EXACT then
      for _ = 1, b.n do times[#times + 1] = min(b.to, now) end
    else
      add(ring, r.width, min(b.to, now), b.n)
    end
  end
  return r.exact and n <= MAX_EXACT and {times = times} or ring
end

-- best returns the index of the limit with the shortest window that is at least per, or else with the longest window; nil if there is none.
local function best(rules, per, shadow)
  local found
  for i, r in ipairs(rules) do
    local f = rules[found]
    if r.shadow == shadow and (not f or f.per < per and r.per > f.per or r.per >= per and r.per < f.per) then found = i end
  end
  return found
end

-- fill returns the admissions of another policy's account for the state of a limit, and the time from which on none is missing.
local function fill(r, old, now)
  local list, latest = {}, now
  for _, shadow in ipairs({r.shadow, not r.shadow}) do
    local i = best(old.rules, r.per, shadow)
    local from, s = old.rules[i], old.states[i]
    local complete = from and (s.times and now - from.per + 1 or (s.newest - BUCKETS + 1) * from.width)
    if from and complete <= latest then
      list, latest = merge(buckets(from, s, latest), list, false), complete - 1
      if from.per >= r.per then
        return list, r.exact and 0 or latest + 1 -- an exact limit has every admission that counts
      end
    end
  end
  return list, latest + 1
end

-- convert returns the account of a value under the policy of the call, advanced to now; whether it must be written; and whether the value
-- is not an account.
local function convert(value, now)
  local old = decode(value)
  local moved = old and advance(old, now)
  if old and old.header == policy.header then return old, moved end
  local from = old or {rules = {}, states = {}, since = now}
  local a = {header = policy.header, rules = policy.rules, states = {}, since = from.since}
  for i, r in ipairs(a.rules) do
    local list, since = fill(r, from, now)
    a.states[i], a.since = state(r, list, now), max(a.since, min(since, now))
  end
  return a, old ~= nil, not old and value ~= ''
end

local function refund(a, t, in_shadow)
  local changed = false
  for i, r in ipairs(a and a.rules or {}) do
    local s = a.states[i]
    if r.shadow and not in_shadow then -- it was not recorded
    elseif s.counts then
      changed = t >= a.since and add(s, r.width, t, -1) or changed
    else
      local k = #s.times
      while k > 0 and s.times[k] ~= t do k = k - 1 end
      if k > 0 then changed = table.remove(s.times, k) ~= nil end
    end
  end
  return changed
end

-- decide returns the outcome of a request, and records an admission.
local function decide(a, now)
  local full, shadow_full = false, false
  for i, r in ipairs(a.rules) do
    if count(a.states[i]) >= r.requests then full, shadow_full = full or not r.shadow, shadow_full or r.shadow end
  end
  if full then return 0 end
  for i, r in ipairs(a.rules) do
    local s = a.states[i]
    if r.shadow and shadow_full then -- not recorded
    elseif s.times then
      s.times[#s.times + 1] = now
    elseif r.exact then -- the limit was lowered and is no longer full: its state becomes times again
      a.states[i] = state(r, merge(buckets(r, s, now), {{to = now, n = 1}}), now)
    else
      add(s, r.width, now, 1)
    end
  end
  return shadow_full and 2 or 1
end

local op, now, value = ARGV[1], tonumber(ARGV[2]), redis.pcall('GET', KEYS[1]) or ''
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
now = max(now, EARLIEST)
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  value = 'not an account'
end
if op == 'refund' then
  local a = decode(value)
  if not refund(a, tonumber(ARGV[3]), ARGV[4] == '1') then return '0' end
  redis.call('SET', KEYS[1], encode(a), 'KEEPTTL')
  redis.call('PUBLISH', ARGV[5], ARGV[6])
  return '1'
end

policy = {header = ARGV[3], rules = rules_of(ARGV[3])}
local a, write, discarded = convert(value, now)
for arg = 4, 5 do
  if ARGV[arg] ~= '' then
    local b = convert(ARGV[arg], now)
    for i, r in ipairs(a.rules) do
      a.states[i] = state(r, merge(buckets(r, a.states[i], now), buckets(r, b.states[i], now), arg == 4), now)
    end
    a.since, write = min(a.since, b.since), true
  end
end
local outcome = op == 'decide' and decide(a, now) or 3
value = encode(a)
if op ~= 'peek' and (write or outcome == 1 or outcome == 2) then
  local keep = 0
  for _, r in ipairs(a.rules) do keep = max(keep, r.per + r.width) end
  if ARGV[2] == '' then
    redis.call('SET', KEYS[1], value, 'PX', math.ceil(keep / 1000))
  else -- a test sets the time
    redis.call('SET', KEYS[1], value)
  end
end
return pack('<I7B', now, outcome + (discarded and 128 or 0)) .. value
