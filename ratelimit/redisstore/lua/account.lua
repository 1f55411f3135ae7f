-- account.lua decides a request on a token's account, merges accounts, and refunds an admission. It is the same algorithm as in package
-- ratelimit, in functions of the same names (account.go, window.go, decide.go, merge.go, shared.go). TestScriptDecidesAsThePackageDoes
-- compares both, byte by byte. docs/develop/rate-limiter.md describes the bytes and the rules.
--
-- KEYS[1]  the token's account
-- ARGV[1]  decide, peek, merge or refund;  ARGV[2] the time in µs since 1970, '' for the time of the server
-- refund:  ARGV[3] time of the admission in µs, ARGV[4] channel, ARGV[5] token id to publish. Returns '1' if it changed the account, else '0'.
-- others:  ARGV[3] limits of the policy, ARGV[4] account to merge by union, ARGV[5] account to add; '' for none
--          Returns the time (7 bytes), the outcome (1 byte: 0 denied, 1 admitted, 2 peek or merge; plus 128 if the value of the key was
--          not an account), and the account, which the reader advances to the time.
--
-- A window is a table: length, exact, last_used, since, and either times (oldest first) or newest (number of the newest bucket), count_bytes
-- (of each count) and counts (of bucket b at b % 61 + 1).
--
-- Lua: indexes begin at 1, a string is bytes, # is the length, .. concatenates, ~= is "not equal", {} is a table: an array or a record.
-- Numbers are doubles, exact up to 2^53. struct.unpack returns the values, then the next index; '<I7' is an unsigned integer of 7 bytes.
local FORM, MAX_WINDOWS, MAX_EXACT, MAX_TIMES, BUCKETS, TAG, EARLIEST, LATEST = 3, 8, 64, 65, 61, 128, 2 ^ 43, 2 ^ 53
local byte, char, rep, sub, pack, struct_unpack = string.byte, string.char, string.rep, string.sub, struct.pack, struct.unpack
local min, max, insert, table_remove = math.min, math.max, table.insert, table.remove

local function quotient(a, b) return (a - a % b) / b end

local function width(w) return quotient(w.length + BUCKETS - 2, BUCKETS - 1) end

local function count_bytes(n) return n < 256 and 1 or n < 65536 and 2 or 4 end

-- find returns a window and its index; nil if the account does not have it.
local function find(a, shape)
  for i, w in ipairs(a) do
    if w.length == shape.length and w.exact == shape.exact then return w, i end
  end
end

-- decode_window decodes the window at an index, and returns it and the next index; nil if it is not valid.
local function decode_window(value, at)
  local tag = byte(value, at)
  if not tag or #value < at + 20 then return nil end
  local w = {exact = tag < TAG}
  w.length, w.last_used, w.since, at = struct_unpack('<I6I7I7', value, at + 1)
  if w.length < 1 or w.last_used >= LATEST or w.since >= LATEST then return nil end
  if w.exact then
    if tag > MAX_TIMES or #value < at + 7 * tag - 1 then return nil end
    w.times = {struct_unpack('<' .. rep('I7', tag), value, at)}
    at = table_remove(w.times) -- the last value is the next index
    for i, t in ipairs(w.times) do
      if t >= LATEST or i > 1 and t < w.times[i - 1] then return nil end
    end
    return w, at
  end
  w.count_bytes = tag - TAG
  if w.count_bytes ~= 1 and w.count_bytes ~= 2 and w.count_bytes ~= 4 or #value < at + 5 + BUCKETS * w.count_bytes then return nil end
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
    local tag = w.exact and #w.times or TAG + w.count_bytes
    local head = pack('<BI6I7I7', tag, w.length, w.last_used, w.since)
    if w.exact then
      parts[i + 1] = head .. pack('<' .. rep('I7', tag), unpack(w.times))
    else
      parts[i + 1] = head .. pack('<I6' .. rep('I' .. w.count_bytes, BUCKETS), w.newest, unpack(w.counts))
    end
  end
  return table.concat(parts)
end

local function new_window(shape, last_used, since, now)
  local w = {length = shape.length, exact = shape.exact, last_used = last_used, since = since}
  if w.exact then
    w.times = {}
  else
    w.newest, w.count_bytes, w.counts = quotient(now, width(w)), 1, {}
    for i = 1, BUCKETS do w.counts[i] = 0 end
  end
  return w
end

local function holds(w, b) return b <= w.newest and b > w.newest - BUCKETS end

-- add adds n admissions at t. No time in the window may be later.
local function add(w, t, n)
  if w.exact then
    for _ = 1, min(n, MAX_TIMES) do
      if #w.times == MAX_TIMES then table_remove(w.times, 1) end
      insert(w.times, t)
    end
    return
  end
  local b = quotient(t, width(w))
  if holds(w, b) then
    local sum = min(w.counts[b % BUCKETS + 1] + n, 2 ^ 32 - 1)
    w.counts[b % BUCKETS + 1], w.count_bytes = sum, max(w.count_bytes, count_bytes(sum))
  end
end

-- remove removes an admission at t, and reports whether there was one.
local function remove(w, t)
  if not w.exact then
    local b = quotient(t, width(w))
    local at = b % BUCKETS + 1
    if t < w.since or not holds(w, b) or w.counts[at] == 0 then return false end
    w.counts[at] = w.counts[at] - 1
    return true
  end
  local i = #w.times
  while i > 0 and w.times[i] ~= t do i = i - 1 end
  if i == 0 then return false end
  if #w.times == MAX_TIMES then -- an older one may have been dropped: a copy of the oldest takes its place
    insert(w.times, 1, w.times[1])
    i = i + 1
  end
  table_remove(w.times, i)
  return true
end

-- advance_times drops times that have left the window, and moves times in the future to now. It reports whether it moved any.
local function advance_times(w, now)
  local kept, moved = {}, false
  for _, t in ipairs(w.times) do
    if t > now then t, moved = now, true end
    if t + w.length > now then kept[#kept + 1] = t end
  end
  w.times = kept
  return moved
end

-- advance_buckets clears the buckets that have left the window, and moves the admissions of those in the future to now.
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

-- advance brings the account to now. It reports whether it moved a time.
local function advance(a, now)
  local moved = false
  for _, w in ipairs(a) do
    local some = w.last_used > now or w.since > now
    w.last_used, w.since = min(w.last_used, now), min(w.since, now)
    if w.exact then some = advance_times(w, now) or some else some = advance_buckets(w, now) or some end
    moved = moved or some
  end
  return moved
end

-- admissions returns the admissions from before a time, oldest first, as entries of n at a time. Those of a bucket count as of its last
-- instant, or as of the time if the bucket contains it.
local function admissions(w, before)
  local list = {}
  if w.exact then
    for i, t in ipairs(w.times) do
      if t < before then list[i] = {at = t, n = 1} end
    end
    return list
  end
  for b = w.newest - BUCKETS + 1, w.newest do
    local n = b * width(w) < before and w.counts[b % BUCKETS + 1] or 0
    if n > 0 then list[#list + 1] = {at = min((b + 1) * width(w) - 1, before), n = n} end
  end
  return list
end

-- filled returns an empty window with the admissions of a list, which has the oldest first.
local function filled(w, list, now)
  for _, e in ipairs(list) do
    local at = min(e.at, now)
    if not w.exact or at + w.length > now then add(w, at, e.n) end -- expired buckets are ignored by add
  end
  return w
end

-- coverage returns for how many µs before now the window has all admissions.
local function coverage(w, now) return w.exact and #w.times == MAX_TIMES and now - w.times[1] or w.length end

-- source returns the admissions before a time for a window that the account does not have. They are those of one window: of those that cover
-- the new one, one with times, or else the shortest; if none does, the one that covers most.
local function source(a, shape, now, before)
  local best, covered
  for _, w in ipairs(a) do
    local c = coverage(w, now)
    local better = not best or c > covered
    if best and covered >= shape.length then -- the best covers the new one
      better = c >= shape.length and (w.exact and not best.exact or w.exact == best.exact and c < covered)
    end
    if better then best, covered = w, c end
  end
  return best and admissions(best, before) or {}
end

-- merge_lists merges two lists in the order of time. With union, admissions in both lists count once.
local function merge_lists(a, b, union)
  local list, i, k = {}, 1, 1
  while a[i] or b[k] do
    local x, y = a[i], b[k]
    if not y or x and x.at < y.at then
      list[#list + 1], i = x, i + 1
    elseif not x or x.at > y.at then
      list[#list + 1], k = y, k + 1
    else
      list[#list + 1] = {at = x.at, n = union and max(x.n, y.n) or x.n + y.n}
      i, k = i + 1, k + 1
    end
  end
  return list
end

-- merge_window returns a window of two accounts, of which at least one has it; a is that of the store. With union, b adds to a window of a
-- only admissions from before it was made.
local function merge_window(shape, a, b, union, now)
  local merged, before, lists, accounts = new_window(shape, 0, now, now), math.huge, {}, {a, b}
  for i, account in ipairs(accounts) do
    local w = find(account, shape)
    if w then
      lists[i] = admissions(w, math.huge)
      merged.last_used, merged.since = max(merged.last_used, w.last_used), min(merged.since, w.since)
      if i == 1 and union then before = w.since end
    end
  end
  for i, account in ipairs(accounts) do
    if not lists[i] then -- rounded as the other one is, so that a union counts admissions in both once
      lists[i] = admissions(filled(new_window(shape, 0, now, now), source(account, shape, now, before), now), math.huge)
      merged.since = now -- a window that is filled from others is made now
    end
  end
  return filled(merged, merge_lists(lists[1], lists[2], union), now)
end

local function merge(a, value, union, now)
  local b = decode(value) or {}
  advance(b, now)
  if #a == 0 or #b == 0 then return #a == 0 and b or a end
  local merged = {}
  for _, account in ipairs({a, b}) do
    for _, w in ipairs(account) do
      if #merged < MAX_WINDOWS and not find(merged, w) then merged[#merged + 1] = merge_window(w, a, b, union, now) end
    end
  end
  return merged
end

-- decode_policy decodes the limits of a policy.
local function decode_policy(value)
  local fields, p = {struct_unpack('<' .. rep('I4I6B', #value / 11), value)}, {}
  for i = 1, #value / 11 do
    p[i] = {requests = fields[3 * i - 2], length = fields[3 * i - 1], shadow = fields[3 * i] == 1, exact = fields[3 * i - 2] <= MAX_EXACT}
  end
  return p
end

-- make_room drops a window if there is no room for another one: of those that the policy does not have, the least recently used.
local function make_room(a, policy)
  if #a < MAX_WINDOWS then return end
  local oldest
  for i, w in ipairs(a) do
    if not find(policy, w) and (not oldest or w.last_used < a[oldest].last_used) then oldest = i end
  end
  table_remove(a, oldest)
end

-- ensure_windows adds the windows of the policy that are missing, and renews last_used of the others if it is older than a quarter of the
-- longest length, or than that of another window. Then it drops windows that no decision has used during twice the longest length. It
-- reports whether the account must be written.
local function ensure_windows(a, policy, now)
  local longest, newest, changed = 0, 0, false
  for _, w in ipairs(a) do longest, newest = max(longest, w.length), max(newest, w.last_used) end
  for _, r in ipairs(policy) do longest = max(longest, r.length) end
  for _, r in ipairs(policy) do
    local w = find(a, r)
    changed = changed or not w or w.last_used < max(newest, now - quotient(longest, 4))
  end
  if not changed then return false end
  local original = {unpack(a)} -- a missing window is not filled from another one that was missing, as roundings would add up
  for _, r in ipairs(policy) do
    local w = find(a, r)
    if w then
      w.last_used = now
    else
      w = filled(new_window(r, now, now, now), source(original, r, now, math.huge), now)
      make_room(a, policy)
      a[#a + 1] = w
    end
  end
  for i = #a, 1, -1 do
    if a[i].last_used + 2 * longest <= now then table_remove(a, i) end
  end
  return true
end

-- total returns the number of admissions in a window.
local function total(w)
  if w.exact then return #w.times end
  local n, counts = 0, w.counts
  for i = 1, BUCKETS do n = n + counts[i] end
  return n
end

-- admits reports whether every enforced limit admits a request.
local function admits(a, policy)
  for _, r in ipairs(policy) do
    if not r.shadow and total(find(a, r)) >= r.requests then return false end
  end
  return true
end

local value = redis.pcall('GET', KEYS[1]) or '' -- GET returns false if the key has no value
if type(value) == 'table' then -- an error; a value of another type is treated as one that is not an account
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  value = 'not an account'
end
local op, now = ARGV[1], tonumber(ARGV[2])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
now = max(now, EARLIEST)
local a = decode(value)
if op == 'refund' then
  local changed = false
  for _, w in ipairs(a or {}) do changed = remove(w, tonumber(ARGV[3])) or changed end
  if not changed then return '0' end
  redis.call('SET', KEYS[1], encode(a), 'KEEPTTL')
  redis.call('PUBLISH', ARGV[4], ARGV[5])
  return '1'
end

local policy, discarded = decode_policy(ARGV[3]), not a and value ~= ''
a = a or {}
local changed = advance(a, now)
for arg = 4, 5 do
  if ARGV[arg] ~= '' then a, changed = merge(a, ARGV[arg], arg == 4, now), true end
end
changed = ensure_windows(a, policy, now) or changed
local outcome = op ~= 'decide' and 2 or admits(a, policy) and 1 or 0
if outcome == 1 then
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
return pack('<I7B', now, outcome + (discarded and 128 or 0)) .. value
