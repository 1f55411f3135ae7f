-- decide.lua admits a request of a token and spends it, or refuses it and writes nothing. What is not ordinary (other limits
-- than those that the state was written under, a clock that was set back) is brought into order by account.lua first.
--
-- KEYS[1] the token's account
-- ARGV[1] the signature of the policy: what the account begins with
-- ARGV[2] the policy in numbers, see plan.go
-- ARGV[3] how long the account is kept in ms; '' for ever
-- ARGV[4] the time in µs; '' for the server's
-- ARGV[5] 'p' to peek: to spend nothing, and tell what was left before
--
-- Answers with the time, the serial of the admission, the µs until one, the indexes from 1 of the limits that refuse and that
-- would have in shadow, 0 for none, and what remains of each limit and for how many µs it is so.
local pack, unpacked, sub, rep = struct.pack, struct.unpack, string.sub, string.rep
local signature, q, place = ARGV[1], {unpacked('<' .. rep('d', #ARGV[2] / 8), ARGV[2])}, #ARGV[1] + 1
local peek = ARGV[5] == 'p'

local now = tonumber(ARGV[4])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local value = redis.call('GET', KEYS[1])
local dirty, since, length = false, now, 0
if value then
  local seen
  if sub(value, 1, place - 1) == signature then
    seen, since, length = unpacked('<ddI2', value, place)
  end
  if not seen or now < seen then
    local account = library()
    value = account.encode(account.rebased(account.decode(value, now), signature, now))
    dirty = true
    seen, since, length = unpacked('<ddI2', value, place)
  end
  q.seen = seen
else
  q.seen = now
end

-- bucket returns the count of a ring's bucket, and for its change: where it is, its unit, and what stands there.
local function bucket(g, base, bits, b)
  local bit = b % 61 * bits
  local shift = bit % 8
  local at, unit = base + (bit - shift) / 8, 2 ^ shift
  local word = unpacked('<I5', g, at)
  return (word - word % unit) / unit % 2 ^ bits, at, unit, word
end

local function splice(g, at, word)
  return sub(g, 1, at - 1) .. pack('<I5', word) .. sub(g, at + 5)
end

-- expire drops the buckets of a ring that left the window as time went on to bucket present.
local function expire(g, base, bits, ring, newest, present)
  local total, oldest = ring.total, newest - ring.reach
  if present - newest >= 61 then
    local size = math.ceil(61 * bits / 8)
    g, total = sub(g, 1, base - 1) .. rep('\0', size) .. sub(g, base + size), 0
  else
    local b, last = oldest, present - 61
    while b <= last and b <= newest do
      local n, at, unit, word = bucket(g, base, bits, b)
      if n > 0 then
        g, total = splice(g, at, word - n * unit), total - n
      end
      b = b + 1
    end
  end
  ring.total, ring.reach = total, 0
  if total > 0 then
    ring.reach = math.min(present - oldest, 60)
  end
  return g
end

local answer = {now, 0, 0, 0, 0}

-- run decides the limits of one group, whose numbers begin at q[o], spends the request if it may and they admit it, and tells
-- what is left. With step, the serial goes up where they refuse, too. It returns the group as it is then, the index of the limit
-- that refuses, when that opens, and the serial.
local function run(g, o, first_limit, may, step)
  local n, tick, span, rings = q[o], q[o + 1], q[o + 2], q[o + 3]
  local form = '<ddI4I4BB' .. rep('BBI4', rings)
  local h, body
  if g then
    h = {unpacked(form, g)}
    body = h[7 + 3 * rings]
  else
    h, body = {now, now + 1, 0, 0, 0, 0}, 1
    local size, k = 0, 6
    for i = 1, n do
      local bits = q[o + 4 * i + 3]
      if bits > 0 then
        h[k + 1], h[k + 2], h[k + 3] = bits, 0, 0
        k, size = k + 3, size + math.ceil(61 * bits / 8)
      end
    end
    g = rep('\0', size + 4)
  end

  local rest, known = h[3], h[5]
  local void = ''
  if h[6] > 0 then
    void = sub(g, -16)
  end
  local stamps = #g - #void - 4 * known + 1
  local present_tick = (now - now % tick) / tick + 1
  local hist = g
  local function at(i) -- the time of the i-th newest admission, from 0
    local stamp = unpacked('<I4', hist, stamps + 4 * i)
    return (present_tick - (present_tick - stamp) % 4294967296) * tick
  end
  local rest_at = 0
  if now - q.seen >= span + tick then
    known, rest = 0, 0
  else
    if rest > 0 then
      rest_at = (present_tick - (present_tick - h[4]) % 4294967296) * tick
      if rest_at + span <= now then
        rest = 0
      end
    end
    while known > 0 and at(known - 1) + span <= now do
      known = known - 1
    end
  end
  local last = stamps - 1 -- of the rings

  -- How the rings are now, and who refuses.
  local ring, base = {}, body
  local denied, opens, k = 0, now, 6
  for i = 1, n do
    local p = o + 4 * i
    local requests, per, width = q[p], q[p + 1], q[p + 2]
    local open = 0
    if width == 0 then
      if known >= requests then
        open = at(requests - 1) + per
      elseif known + rest >= requests then
        open = rest_at + per
      end
    else
      local bits = h[k + 1]
      local r = {bits = bits, reach = h[k + 2], total = h[k + 3], base = base, k = k}
      ring[i] = r
      local newest = (q.seen - q.seen % width) / width
      local present = (now - now % width) / width
      r.present = present
      if present > newest and r.total > 0 then
        g = expire(g, base, bits, r, newest, present)
        hist = g
      end
      if r.total >= requests then
        local b, left = present - r.reach, r.total
        repeat
          left = left - bucket(g, base, bits, b)
          b = b + 1
        until left < requests
        open = (b + 60) * width
      end
      base, k = base + math.ceil(61 * bits / 8), k + 3
    end
    if open > opens then
      denied, opens = first_limit + i, open
    end
  end

  hist, stamps = sub(hist, stamps, stamps + 4 * known - 1), 1
  local spent = may and denied == 0
  if spent then
    if span > 0 then
      local up = now + tick - 1
      hist, known = pack('<I4', (up - up % tick) / tick % 4294967296) .. hist, known + 1
    end
    for i = 1, n do
      local r = ring[i]
      if r then
        local _, at, unit, word = bucket(g, r.base, r.bits, r.present)
        g, r.total = splice(g, at, word + unit), r.total + 1
      end
    end
  end

  for i = 1, n do
    local p = o + 4 * i
    local requests, per, width = q[p], q[p + 1], q[p + 2]
    local count, reset, r = 0, 0, ring[i]
    if r then
      count = r.total
      if count > 0 then
        local b, left = r.present - r.reach, count
        while bucket(g, r.base, r.bits, b) == 0 do
          b, r.reach = b + 1, r.reach - 1
        end
        if count > requests then
          count = requests
          repeat
            left = left - bucket(g, r.base, r.bits, b)
            b = b + 1
          until left < requests
          b = b - 1
        end
        reset = (b + 61) * width - now
      end
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
        reset = at(count - 1) + per - now
      end
    end
    local a = 2 * (first_limit + i) + 4
    answer[a], answer[a + 1] = requests - count, reset
  end

  if spent or may and step then
    h[1] = h[1] + 1
    if void ~= '' or not spent then
      void = library().marked(void, h[1], not spent)
    end
    h[3], h[5], h[6] = rest, known, #void / 16
    for _, r in pairs(ring) do
      h[r.k + 2], h[r.k + 3] = r.reach, r.total
    end
    g = pack(form, unpack(h)) .. sub(g, body, last) .. hist .. void
  end
  return g, denied, opens, h[1]
end

local enforced, shadow
if value then
  enforced, shadow = sub(value, place + 18, place + 17 + length), sub(value, place + 18 + length)
end
local n = q[2]
local denied, opens, serial
enforced, denied, opens, serial = run(enforced, 2, 0, not peek, false)
if q[1] > 1 then
  local shadowed
  shadow, shadowed = run(value and shadow, 6 + 4 * n, n, not peek and denied == 0, true)
  n = n + q[6 + 4 * n]
  if denied == 0 then
    answer[5] = shadowed
  end
end
if denied > 0 then
  answer[3], answer[4] = opens - now, denied
elseif not peek then
  answer[2] = serial
  value = signature .. pack('<ddI2', now, since, #enforced) .. enforced .. (shadow or '')
end
if not peek and (denied == 0 or dirty) then
  if ARGV[3] == '' then
    redis.call('SET', KEYS[1], value)
  else
    redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
  end
end
return pack('<dddBB' .. rep('I4d', n), unpack(answer))
