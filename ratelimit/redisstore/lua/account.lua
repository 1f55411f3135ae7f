-- account.lua decides a request on a token's account, adds an upload to it, and refunds an
-- admission. It is the same algorithm as in package ratelimit, in functions of the same names,
-- whose comments apply (account.go, window.go, decide.go, merge.go, exchange.go).
-- TestScriptDecidesAsThePackageDoes compares both, byte by byte. docs/develop/rate-limiter.md
-- describes the bytes and the rules.
--
-- KEYS[1]  the token's account
-- ARGV[1]  decide, peek, upload or refund
-- ARGV[2]  the time in µs since 1970, '' for the time of the server; ignored by refund
-- refund:
--   ARGV[3]  time of the admission in µs
--   ARGV[4]  channel
--   ARGV[5]  token id to publish
--   Returns '1' if it changed the account, else '0'.
-- decide, peek and upload:
--   ARGV[3]  limits of the policy
--   ARGV[4]  account to add, '' for none
--   Returns the time (7 bytes), the outcome (1 byte: 0 denied, 1 admitted, 2 peek or upload; plus
--   128 if the value of the key was not an account), and the account, which the reader advances to
--   the time.
--
-- A window is a table with length, exact, last_used and since; and either
--   times (oldest first), or
--   newest (number of the newest bucket), count_bytes (of each count) and counts (the count of
--   bucket b is at b % 61 + 1).
--
-- Lua: indexes begin at 1, a string is bytes, # is the length, .. concatenates, ~= is "not equal",
-- {} is a table: an array or a record. "x and y or z" is y if x is true, else z; 0 and '' are true.
-- Numbers are doubles, exact up to 2^53. struct.unpack returns the values, and then the next index;
-- '<I7' is an unsigned integer of 7 bytes.
local FORM = 3 -- first byte of every account
local MAX_WINDOWS = 8
local MAX_EXACT = 64 -- requests of a limit that is decided by times
local MAX_TIMES = 65
local TAG_BUCKETS = 128
local COVERING_BUCKETS = 60
local BUCKETS = 61
local EARLIEST = 2 ^ 43
local LATEST = 2 ^ 53
local byte, char, rep, pack, struct_unpack = string.byte, string.char, string.rep, struct.pack, struct.unpack
local min, max, insert, table_remove = math.min, math.max, table.insert, table.remove

local function quotient(a, b) return (a - a % b) / b end

local function width(w) return quotient(w.length + COVERING_BUCKETS - 1, COVERING_BUCKETS) end

local function bytes_for(n) return n < 256 and 1 or n < 65536 and 2 or 4 end

local function find(a, shape)
  for _, w in ipairs(a) do
    if w.length == shape.length and w.exact == shape.exact then return w end
  end
end

-- decode_window decodes the window at an index, and returns it and the next index; nil if it is not
-- valid.
local function decode_window(value, at)
  local tag = byte(value, at)
  if not tag then return nil end
  local w, count_bytes = {exact = tag < TAG_BUCKETS}, tag - TAG_BUCKETS
  -- tag, length, last_used and since are 21 bytes
  local size = 21 + (w.exact and 7 * tag or 6 + BUCKETS * count_bytes)
  if #value < at + size - 1 then return nil end
  w.length, w.last_used, w.since, at = struct_unpack('<I6I7I7', value, at + 1)
  if w.length < 1 or w.last_used >= LATEST or w.since >= LATEST then return nil end
  if w.exact then
    if tag > MAX_TIMES then return nil end
    w.times = {struct_unpack('<' .. rep('I7', tag), value, at)}
    at = table_remove(w.times) -- the last value is the next index
    for i, t in ipairs(w.times) do
      if t >= LATEST or i > 1 and t < w.times[i - 1] then return nil end
    end
    return w, at
  end
  if count_bytes ~= 1 and count_bytes ~= 2 and count_bytes ~= 4 then return nil end
  w.count_bytes = count_bytes
  w.newest, at = struct_unpack('<I6', value, at)
  w.counts = {struct_unpack('<' .. rep('I' .. w.count_bytes, BUCKETS), value, at)}
  at = table_remove(w.counts)
  if w.newest > quotient(LATEST - 1, width(w)) then return nil end
  return w, at
end

-- decode returns an account, a list of windows; nil if the value is not an account.
local function decode(value)
  local form, n = byte(value, 1, 2)
  if form ~= FORM or not n or n > MAX_WINDOWS then return nil end
  local a, at = {}, 3
  for i = 1, n do
    local w
    w, at = decode_window(value, at)
    if not w or find(a, w) then return nil end
    a[i] = w
  end
  return at == #value + 1 and a or nil
end

local function encode(a)
  local parts = {char(FORM, #a)}
  for i, w in ipairs(a) do
    local tag = w.exact and #w.times or TAG_BUCKETS + w.count_bytes
    local head = pack('<BI6I7I7', tag, w.length, w.last_used, w.since)
    if w.exact then
      parts[i + 1] = head .. pack('<' .. rep('I7', tag), unpack(w.times))
    else
      parts[i + 1] = head .. pack('<I6' .. rep('I' .. w.count_bytes, BUCKETS), w.newest, unpack(w.counts))
    end
  end
  return table.concat(parts)
end

local function new_window(shape, now)
  local w = {length = shape.length, exact = shape.exact, last_used = now, since = now}
  if w.exact then
    w.times = {}
  else
    w.newest, w.count_bytes, w.counts = quotient(now, width(w)), 1, {}
    for i = 1, BUCKETS do w.counts[i] = 0 end
  end
  return w
end

local function holds(w, b) return b <= w.newest and b > w.newest - BUCKETS end

local function add_time(w, t)
  local i = #w.times
  while i > 0 and w.times[i] > t do i = i - 1 end
  insert(w.times, i + 1, t)
  if #w.times > MAX_TIMES then table_remove(w.times, 1) end
end

-- add adds n admissions at t.
local function add(w, t, n)
  if w.exact then
    for _ = 1, min(n, MAX_TIMES) do add_time(w, t) end
    return
  end
  local b = quotient(t, width(w))
  if holds(w, b) then
    local sum = min(w.counts[b % BUCKETS + 1] + n, 2 ^ 32 - 1)
    w.counts[b % BUCKETS + 1], w.count_bytes = sum, max(w.count_bytes, bytes_for(sum))
  end
end

local function remove_time(w, t)
  local i = #w.times
  while i > 0 and w.times[i] ~= t do i = i - 1 end
  if i == 0 then return false end
  if #w.times == MAX_TIMES then -- a copy of the oldest replaces t
    if t == w.times[1] then return false end
    insert(w.times, 1, w.times[1])
    i = i + 1
  end
  table_remove(w.times, i)
  return true
end

-- remove removes an admission at t, and reports whether the window has changed.
local function remove(w, t)
  if w.exact then return remove_time(w, t) end
  local b = quotient(t, width(w))
  local at = b % BUCKETS + 1
  if t < w.since or not holds(w, b) or w.counts[at] == 0 then return false end
  w.counts[at] = w.counts[at] - 1
  return true
end

-- advance_times drops times that have left the window, and moves times in the future to now. It
-- reports whether it moved any.
local function advance_times(w, now)
  local kept, moved = {}, false
  for _, t in ipairs(w.times) do
    if t > now then t, moved = now, true end
    if t + w.length > now then kept[#kept + 1] = t end
  end
  w.times = kept
  return moved
end

-- advance_buckets clears the buckets that have left the window, and moves the admissions of those
-- in the future to now.
local function advance_buckets(w, now)
  local newest, present, future = w.newest, quotient(now, width(w)), 0
  if newest == present then return false end
  for b = max(present, newest - BUCKETS) + 1, newest do
    future = future + w.counts[b % BUCKETS + 1]
    w.counts[b % BUCKETS + 1] = 0
  end
  for b = max(newest, present - BUCKETS) + 1, present do w.counts[b % BUCKETS + 1] = 0 end
  w.newest = present
  if future > 0 then add(w, now, future) end
  return future > 0
end

-- advance brings the account to now, and reports whether it moved a time.
local function advance(a, now)
  local moved = false
  for _, w in ipairs(a) do
    if w.last_used > now or w.since > now then
      w.last_used, w.since, moved = min(w.last_used, now), min(w.since, now), true
    end
    local advance_state = w.exact and advance_times or advance_buckets
    if advance_state(w, now) then moved = true end
  end
  return moved
end

-- groups returns the admissions of a window, oldest first; those of a bucket have the time of its
-- last instant.
local function groups(w)
  local list = {}
  if w.exact then
    for i, t in ipairs(w.times) do list[i] = {at = t, n = 1} end
    return list
  end
  for b = w.newest - BUCKETS + 1, w.newest do
    local n = w.counts[b % BUCKETS + 1]
    if n > 0 then list[#list + 1] = {at = (b + 1) * width(w) - 1, n = n} end
  end
  return list
end

-- coverage returns for how many µs before now the window has all admissions.
local function coverage(w, now)
  if w.exact and #w.times == MAX_TIMES then return now - w.times[1] end
  return w.length
end

local function is_better_source(shape, w, other, now)
  local covered, by_other = coverage(w, now), coverage(other, now)
  if min(covered, by_other) < shape.length then return covered > by_other end -- not both cover it
  if w.exact ~= other.exact then return w.exact end
  return covered < by_other
end

-- copy_window returns a window of a shape that the account lacks, filled from the best of its
-- windows.
local function copy_window(a, shape, now)
  local best, filled = nil, new_window(shape, now)
  for _, w in ipairs(a) do
    if not best or is_better_source(shape, w, best, now) then best = w end
  end
  for _, g in ipairs(best and groups(best) or {}) do
    local at = min(g.at, now)
    -- add ignores expired buckets, but not expired times.
    if not filled.exact or at + filled.length > now then add(filled, at, g.n) end
  end
  return filled
end

local function add_window(w, other, now)
  local added = find(other, w)
  if added then
    w.last_used, w.since = max(w.last_used, added.last_used), min(w.since, added.since)
  else
    added, w.since = copy_window(other, w, now), now
  end
  for _, g in ipairs(groups(added)) do add(w, min(g.at, now), g.n) end
end

-- sum adds account b to a, which must be advanced to now, and returns the sum.
local function sum(a, b, now)
  advance(b, now)
  if #a == 0 then return b end
  if #b == 0 then return a end
  local before = {unpack(a)}
  for _, w in ipairs(b) do
    if #a < MAX_WINDOWS and not find(a, w) then
      local missing = copy_window(before, w, now)
      missing.last_used = w.last_used
      insert(a, missing)
    end
  end
  for _, w in ipairs(a) do add_window(w, b, now) end
  return a
end

-- decode_policy decodes limits of 13 bytes, as NewPolicy encodes them.
local function decode_policy(value)
  local n = #value / 13
  local fields, p = {struct_unpack('<' .. rep('I4I8B', n), value)}, {}
  for i = 1, n do
    p[i] = {requests = fields[3 * i - 2], length = fields[3 * i - 1], shadow = fields[3 * i] == 1, exact = fields[3 * i - 2] <= MAX_EXACT}
  end
  return p
end

local function make_room(a, policy)
  if #a < MAX_WINDOWS then return end
  local oldest
  for i, w in ipairs(a) do
    if not find(policy, w) and (not oldest or w.last_used < a[oldest].last_used) then oldest = i end
  end
  table_remove(a, oldest)
end

local function has_windows_used_since(a, policy, since)
  for _, r in ipairs(policy) do
    local w = find(a, r)
    if not w or w.last_used < since then return false end
  end
  return true
end

local function add_missing(a, policy, now)
  local before = {unpack(a)} -- the windows to fill from
  for _, r in ipairs(policy) do
    if not find(a, r) then
      make_room(a, policy)
      a[#a + 1] = copy_window(before, r, now)
    end
  end
end

local function drop_unused(a, since)
  for i = #a, 1, -1 do
    if a[i].last_used <= since then table_remove(a, i) end
  end
end

-- prepare_windows prepares the account for a decision by the policy, and reports whether it must be
-- written. decide.go has the rules.
local function prepare_windows(a, policy, now)
  local longest, newest_use = 0, 0
  for _, w in ipairs(a) do longest, newest_use = max(longest, w.length), max(newest_use, w.last_used) end
  for _, r in ipairs(policy) do longest = max(longest, r.length) end
  if has_windows_used_since(a, policy, max(newest_use, now - quotient(longest, 4))) then return false end
  add_missing(a, policy, now)
  for _, r in ipairs(policy) do find(a, r).last_used = now end
  drop_unused(a, now - 2 * longest)
  return true
end

local function total(w)
  if w.exact then return #w.times end
  local n, counts = 0, w.counts
  for i = 1, BUCKETS do n = n + counts[i] end
  return n
end

local function admits(a, policy)
  for _, r in ipairs(policy) do
    if not r.shadow and total(find(a, r)) >= r.requests then return false end
  end
  return true
end

local value = redis.pcall('GET', KEYS[1]) or '' -- GET returns false if the key has no value
if type(value) == 'table' then -- an error; a value of another type is not an account
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  value = 'not an account'
end
local op, a = ARGV[1], decode(value)
if op == 'refund' then
  local changed, at = false, max(tonumber(ARGV[3]), EARLIEST)
  for _, w in ipairs(a or {}) do
    if remove(w, at) then changed = true end
  end
  if not changed then return '0' end
  redis.call('SET', KEYS[1], encode(a), 'KEEPTTL')
  redis.call('PUBLISH', ARGV[4], ARGV[5])
  return '1'
end

local now = tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
now = max(now, EARLIEST)
local DENIED, ADMITTED, PEEKED, DISCARDED = 0, 1, 2, 128
local policy, discarded = decode_policy(ARGV[3]), not a and value ~= ''
a = a or {}
local changed = advance(a, now)
if ARGV[4] ~= '' then a, changed = sum(a, decode(ARGV[4]) or {}, now), true end
changed = prepare_windows(a, policy, now) or changed
local outcome = PEEKED
if op == 'decide' then
  outcome = DENIED
  if admits(a, policy) then outcome = ADMITTED end
end
if outcome == ADMITTED then
  for _, w in ipairs(a) do add(w, now, 1) end
  changed = true
end
if changed then value = encode(a) end
if changed and op ~= 'peek' then
  local keep = 0
  for _, w in ipairs(a) do keep = max(keep, w.length + width(w)) end
  if ARGV[2] == '' then
    redis.call('SET', KEYS[1], value, 'PX', math.ceil(keep / 1000))
  else -- a test sets the time
    redis.call('SET', KEYS[1], value)
  end
end
return pack('<I7B', now, outcome + (discarded and DISCARDED or 0)) .. value
