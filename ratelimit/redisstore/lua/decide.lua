-- decide.lua admits a request of a token and spends it, or refuses it and writes nothing. What is not ordinary (other limits
-- than those that the account was written under, a clock that was set back) is brought into order by account.lua first, which
-- says what an account is. This script is run at every request, so it copies what it can and takes apart what it must.
--
-- KEYS[1] the token's account
-- ARGV[1] the signature of the policy
-- ARGV[2] the form of the account's head and ARGV[3] the policy in numbers, see plan.go
-- ARGV[4] the form of the answer
-- ARGV[5] how long the account is kept in ms; '' for ever
-- ARGV[6] the time in µs; '' for the server's
-- ARGV[7] 'p' to peek: to spend nothing, and tell what was left before
--
-- Answers with the time, the serial of the admission, the µs until one, the indexes from 1 of the limits that refuse and that
-- would have in shadow, 0 for none, and what remains of each limit and for how many µs it is so.
local pack, unpacked, sub, rep = struct.pack, struct.unpack, string.sub, string.rep
local signature, form, may = ARGV[1], ARGV[2], ARGV[7] == ''
local place = #signature + 1
local q = {unpacked('<' .. rep('d', #ARGV[3] / 8), ARGV[3])}

local now = ARGV[6]
if now == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now = tonumber(now)
end

-- The account, its head as a table, and whether it is to be written though nothing is spent.
local value, h, dirty = redis.call('GET', KEYS[1]), nil, false
if not value then
  value = rep('\0', place - 1 + q[2] + q[3])
  h = {unpacked(form, value)}
  h[1], h[2] = now, now
  local o, k = 4, 3
  for _ = 1, q[1] do
    h[k], h[k + 1], k = now, now + 1, k + 6
    for i = 1, q[o] do
      if q[o + 4 * i + 3] > 0 then
        h[k], k = q[o + 4 * i + 3], k + 3
      end
    end
    o = o + 4 + 4 * q[o]
  end
elseif sub(value, 1, place - 1) == signature then
  h = {unpacked(form, value, place)}
end
if not h or not (h[1] >= 0 and h[1] <= now and h[3] >= 0 and h[3] < 2 ^ 52) then -- also where one is no number
  local account = library()
  dirty = true
  value = account.encode(account.rebased(account.decode(value, now), signature, now))
  h = {unpacked(form, value, place)}
end
local seen = h[1]

-- bucket returns the count in bucket b of a ring, and for its change: where it is, its unit, and what stands there.
local function bucket(base, bits, b)
  local bit = b % 61 * bits
  local shift = bit % 8
  local at, unit = base + (bit - shift) / 8, 2 ^ shift
  local word = unpacked('<I5', value, at)
  return (word - word % unit) / unit % 2 ^ bits, at, unit, word
end

-- expire drops the buckets that left a ring as time went on to bucket present. h[k] is the ring's reach, h[k + 1] its total.
local function expire(base, bits, k, newest, present)
  local oldest, total = newest - h[k], h[k + 1]
  local gone = math.min(newest, present - 61)
  while total > 0 and oldest <= gone do
    local n, at, unit, word = bucket(base, bits, oldest)
    if n > 0 then
      value = sub(value, 1, at - 1) .. pack('<I5', word - n * unit) .. sub(value, at + 5)
      total = total - n
    end
    oldest = oldest + 1
  end
  oldest = math.max(oldest, present - 60)
  while total > 0 and oldest <= present and bucket(base, bits, oldest) == 0 do
    oldest = oldest + 1
  end
  if oldest > present then
    total = 0 -- which nothing makes up: it was written by something else than these scripts
  end
  h[k], h[k + 1] = total > 0 and present - oldest or 0, total
end

-- opens returns when fewer than n admissions count in a ring that has more.
local function opens(base, bits, k, n, present, width)
  local b, left = present - h[k], h[k + 1]
  repeat
    left = left - bucket(base, bits, b)
    b = b + 1
  until left < n or b > present
  return (b + 60) * width
end

local answer, body = {now, 0, 0, 0, 0}, place + q[2]

-- run decides the limits of a group: o is where its numbers are in q, k where its head is in h, a where its first limit is in the
-- answer. It spends the request if it may and they admit it, as the admission of a serial, if that is given. It returns the rest
-- of the group as it is then, which of its limits refuses, and when that opens.
local function run(o, k, a, may, serial)
  local n, tick, span = q[o], q[o + 1], q[o + 2]
  local rest, known, void = h[k + 2], h[k + 4], h[k + 5]

  -- Each limit's ring, if it has one, is brought to now.
  local refuses, open_at = 0, now
  local base, ring = body, k + 6
  for i = 1, n do
    local p = o + 4 * i
    local width = q[p + 2]
    if width > 0 then
      local bits, total = h[ring], h[ring + 2]
      local present = (now - now % width) / width
      if total > 0 then
        local newest = (seen - seen % width) / width
        if present > newest then
          expire(base, bits, ring + 1, newest, present)
          total = h[ring + 2]
        end
        if total >= q[p] then
          local at = opens(base, bits, ring + 1, q[p], present, width)
          if at > open_at then
            refuses, open_at = i, at
          end
        end
      end
      bits = 61 * bits + 7
      base, ring = base + (bits - bits % 8) / 8 + 4, ring + 3
    end
  end

  -- So is the history.
  local stamps, next_tick = base, (now - now % tick) / tick + 1
  local function at(i) -- the time of the i-th newest admission, from 0
    return (next_tick - (next_tick - unpacked('<I4', value, stamps + 4 * i)) % 4294967296) * tick
  end
  local last = stamps + 4 * known + 16 * void
  local bits = void > 0 and sub(value, last - 16, last - 1) or ''
  local oldest, rest_at = 0, 0
  if rest > 0 then
    rest_at = (next_tick - (next_tick - h[k + 3]) % 4294967296) * tick
    if rest_at + span <= now or now - seen >= span + tick then
      rest = 0
    end
  end
  if known > 0 and now - seen >= span + tick then
    known = 0
  end
  while known > 0 do
    oldest = at(known - 1)
    if oldest + span > now then
      break
    end
    known = known - 1
  end
  for i = 1, n do
    local p = o + 4 * i
    local requests = q[p]
    if q[p + 2] == 0 and known + rest >= requests then
      local open = (known >= requests and at(requests - 1) or rest_at) + q[p + 1]
      if open > open_at or open == open_at and refuses > i then
        refuses, open_at = i, open
      end
    end
  end

  -- What is left of each limit, after this one if it is spent.
  local spent = may and refuses == 0
  local one, up = spent and 1 or 0, now + tick - 1
  up = (up - up % tick) / tick
  local changed, from = '', body
  base, ring = body, k + 6
  for i = 1, n do
    local p = o + 4 * i
    local requests, per, width = q[p], q[p + 1], q[p + 2]
    local count, reset = 0, 0
    if width > 0 then
      local present = (now - now % width) / width
      local bits = h[ring]
      if spent then
        local _, at, unit, word = bucket(base, bits, present)
        changed, from = changed .. sub(value, from, at - 1) .. pack('<I5', word + unit), at + 5
        h[ring + 2] = h[ring + 2] + 1
      end
      count = h[ring + 2]
      if count > requests then
        count, reset = requests, opens(base, bits, ring + 1, requests, present, width) - now
      elseif count > 0 then
        reset = (present - h[ring + 1] + 61) * width - now
      end
      bits = 61 * bits + 7
      base, ring = base + (bits - bits % 8) / 8 + 4, ring + 3
    else
      if rest > 0 and rest_at > now - per then
        count = known + rest
      elseif per == span then
        count = known
      else
        local high = known
        while count < high do -- as many are the newest that count
          local middle = (count + high - (count + high) % 2) / 2
          if at(middle) > now - per then
            count = middle + 1
          else
            high = middle
          end
        end
      end
      if count > requests then
        count = requests
      end
      if count > known then
        reset = rest_at + per - now
      elseif count > 0 then
        reset = (count == known and oldest or at(count - 1)) + per - now
      elseif spent then
        reset = up * tick + per - now
      end
      count = count + one
    end
    answer[a + 2 * i], answer[a + 2 * i + 1] = requests - count, reset
  end

  if may and (spent or serial) then
    if spent then
      serial = serial or h[k] + 1
      if bits ~= '' or serial > h[k] + 1 then
        bits = library().skipped(bits, h[k], serial)
      end
      h[k] = serial
    end
    changed = changed .. sub(value, from, stamps - 1)
    h[k + 2], h[k + 4], h[k + 5] = rest, known, #bits / 16
    if spent and span > 0 then
      changed, h[k + 4] = changed .. pack('<I4', up % 4294967296), known + 1
    end
    changed = changed .. sub(value, stamps, stamps + 4 * known - 1) .. bits
  end
  body = last
  return changed, refuses, open_at
end

local n = q[4]
local enforced, refuses, open_at = run(4, 3, 4, may)
if refuses > 0 then
  answer[3], answer[4], may = open_at - now, refuses, may and dirty
end
local shadow = ''
if q[1] > 1 then
  local would
  shadow, would = run(8 + 4 * n, 9 + 3 * q[7], 4 + 2 * n, may and refuses == 0, h[3])
  if refuses == 0 and would > 0 then
    answer[5] = n + would
  end
end
if may and refuses == 0 then
  answer[2], h[1] = h[3], now
  value = signature .. pack(form, unpack(h)) .. enforced .. shadow
end
if may then
  if ARGV[5] == '' then
    redis.call('SET', KEYS[1], value)
  else
    redis.call('SET', KEYS[1], value, 'PX', ARGV[5])
  end
end
return pack(ARGV[4], unpack(answer))
