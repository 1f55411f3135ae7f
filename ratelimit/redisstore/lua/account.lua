-- account.lua is what the scripts share for all that is out of the ordinary: an account as tables, which is slow and plain.
-- The rules are those of package ratelimit, whose names it uses.
--
-- An account begins with a signature: version, number of limits that are enforced, number of those in shadow, and requests and
-- µs of each. Its head follows: when it was last changed, when it was made, and for each group of
-- limits, which are those that are enforced and those in shadow:
--
--   serial, first                    of the newest admission; of those that can be given back
--   rest, its stamp                  as in a history
--   number of stamps, of void bits   the latter 0, or 1 for 16 bytes of them
--   width, reach, total              of each ring; in the bucket that the reach tells there is something
--
-- and then, for each group again:
--
--   the rings, each with four bytes more, so that five bytes are one number anywhere
--   stamps, newest first
--   void bits of the newest 128 serials: those given back, or not spent
local function library()
  local pack, unpacked, sub, rep = struct.pack, struct.unpack, string.sub, string.rep
  local buckets, max_exact, numbered, max_bytes = 61, 64, 128, 512

  local function floor(x, unit) -- how often unit goes into x; exact where a division is not
    return (x - x % unit) / unit
  end

  local function bits_of(n)
    local bits = 0
    while n >= 1 do
      n, bits = n / 2, bits + 1
    end
    return bits
  end

  -- quantized is the first tick that is not before t.
  local function quantized(g, t)
    return floor(t + g.tick - 1, g.tick) * g.tick
  end

  -- marked sets or clears the bit of a serial; no bits at all are the same as none that are set.
  local function marked(void, serial, on)
    if void == '' then
      void = rep('\0', 16)
    end
    local i = serial % numbered
    local at, bit = floor(i, 8) + 1, 2 ^ (i % 8)
    local byte = string.byte(void, at)
    if (floor(byte, bit) % 2 == 1) ~= on then
      byte = byte + (on and bit or -bit)
    end
    void = sub(void, 1, at - 1) .. string.char(byte) .. sub(void, at + 1)
    return void ~= rep('\0', 16) and void or ''
  end

  -- skipped marks the serials between two as not spent, and the latter as spent.
  local function skipped(void, from, to)
    for serial = math.max(from + 1, to - numbered + 1), to - 1 do
      void = marked(void, serial, true)
    end
    return marked(void, to, false)
  end

  local function is_spent(g, serial)
    if serial < g.first or g.serial - serial >= numbered then
      return false
    end
    local i = serial % numbered
    return g.void == '' or floor(string.byte(g.void, floor(i, 8) + 1), 2 ^ (i % 8)) % 2 == 0
  end

  -- groups returns the limits that a signature names, as groups that know nothing.
  local function groups(signature, now)
    local _, enforced, shadow, at = unpacked('<BBB', signature)
    local list = {}
    for _, n in ipairs({enforced, shadow}) do
      local g = {limits = {}, exact = {}, rings = {}, span = 0, capacity = 0, hist = {}, rest = 0, rest_at = 0,
        serial = now, first = now + 1, void = ''}
      for i = 1, n do
        local requests, per
        requests, per, at = unpacked('<I4I6', signature, at)
        local l = {requests = requests, per = per}
        g.limits[i] = l
        if requests <= max_exact then
          g.span, g.capacity = math.max(g.span, per), math.max(g.capacity, requests)
        else
          l.width, l.bits, l.counts, l.total = floor(per + buckets - 2, buckets - 1), bits_of(requests), {}, 0
          table.insert(g.rings, l)
        end
      end
      g.tick = 1 + floor(g.span, 2 ^ 30)
      if n > 0 then
        table.insert(list, g)
      end
    end
    return list, at
  end

  -- finest returns the rings, the finest first.
  local function finest(g)
    local rings = {unpack(g.rings)}
    table.sort(rings, function(x, y) return x.per < y.per end)
    return rings
  end

  local function ring_add(r, t, n, now)
    local b, newest = floor(t, r.width), floor(now, r.width)
    if b > newest or b <= newest - buckets then
      return
    end
    local old = r.counts[b] or 0
    local sum = math.min(old + n, 2 ^ r.bits - 1)
    r.counts[b], r.total = sum, r.total + sum - old
  end

  local function ring_remove(r, t)
    local b = floor(t, r.width)
    if (r.counts[b] or 0) > 0 then
      r.counts[b], r.total = r.counts[b] - 1, r.total - 1
    end
  end

  -- bytes is the size of what a group remembers, with that capacity and those bits of each ring's counts.
  local function bytes(capacity, rings, bits)
    local all = 32 * capacity
    for i in ipairs(rings) do
      all = all + buckets * bits[i]
    end
    return floor(all + 63, 64) * 8
  end

  local function advance_history(g, seen, now)
    if now - seen >= g.span + g.tick then
      g.hist, g.rest = {}, 0
      return
    end
    if g.rest > 0 and g.rest_at + g.span <= now then
      g.rest = 0
    end
    while #g.hist > 0 and g.hist[#g.hist] + g.span <= now do
      table.remove(g.hist)
    end
    if now < seen then
      for i, t in ipairs(g.hist) do
        g.hist[i] = quantized(g, math.min(t, now))
      end
      g.rest_at = quantized(g, math.min(g.rest_at, now))
    end
  end

  local function advance_ring(r, now)
    local present, future = floor(now, r.width), 0
    local kept = {}
    r.total = 0
    for b, n in pairs(r.counts) do
      if b > present then
        future = future + n
      elseif b > present - buckets then
        kept[b], r.total = n, r.total + n
      end
    end
    r.counts = kept
    ring_add(r, now, future, now)
  end

  -- advance brings an account to now.
  local function advance(a, now)
    for _, g in ipairs(a.groups) do
      if now < a.seen then
        g.first, g.void = g.serial + 1, ''
      end
      advance_history(g, a.seen, now)
      for _, r in ipairs(g.rings) do
        advance_ring(r, now)
      end
    end
    a.seen = now
  end

  local function head_form(list)
    local form = '<dd'
    for _, g in ipairs(list) do
      form = form .. 'ddI4I4BB' .. rep('BBI4', #g.rings)
    end
    return form
  end

  -- decode_group reads a group, whose head is h from k on and whose body is in s from base on, and returns where that ends.
  local function decode_group(g, seen, h, k, s, base)
    g.serial, g.first, g.rest = h[k], h[k + 1], h[k + 2]
    for i, r in ipairs(g.rings) do
      local at, newest = k + 3 + 3 * i, floor(seen, r.width)
      r.bits, r.total = h[at], h[at + 2]
      for b = newest - h[at + 1], newest do
        local bit = b % buckets * r.bits
        local n = floor(unpacked('<I5', s, base + floor(bit, 8)), 2 ^ (bit % 8)) % 2 ^ r.bits
        if n > 0 then
          r.counts[b] = n
        end
      end
      base = base + math.ceil(buckets * r.bits / 8) + 4
    end
    local next_tick = floor(seen, g.tick) + 1
    local function time(stamp)
      return (next_tick - (next_tick - stamp) % 2 ^ 32) * g.tick
    end
    g.rest_at = time(h[k + 3])
    for i = 1, h[k + 4] do
      g.hist[i] = time(unpacked('<I4', s, base))
      base = base + 4
    end
    if h[k + 5] > 0 then
      g.void = sub(s, base, base + 15)
    end
    return base + #g.void
  end

  -- is_sane says whether a time or a serial is one that can be counted on from.
  local function is_sane(n) return n >= 0 and n < 2 ^ 52 end

  local function decode_all(value, now)
    local list, at = groups(value, now)
    local h = {unpacked(head_form(list), value, at)}
    local base, k = h[#h], 3
    assert(is_sane(h[1]) and is_sane(h[2]))
    for _, g in ipairs(list) do
      assert(is_sane(h[k]) and is_sane(h[k + 1]))
      base = decode_group(g, h[1], h, k, value, base)
      k = k + 6 + 3 * #g.rings
    end
    return {groups = list, signature = sub(value, 1, at - 1), seen = h[1], since = h[2]}
  end

  -- decode returns a stored account as it was when it was changed last, or one that knows nothing: also where what is stored is
  -- none, so that it does not fail, or go on for ever, at each request of the token.
  local function decode(value, now)
    if value and sub(value, 1, 1) == '\1' then
      local is_account, a = pcall(decode_all, value, now)
      if is_account then
        return a
      end
    end
    return {groups = {}, seen = now, since = now, unknown = true}
  end

  local function encode_ring(r, newest)
    local reach, cells = 0, {}
    for at = 1, math.ceil(buckets * r.bits / 8) + 4 do
      cells[at] = 0
    end
    for b, n in pairs(r.counts) do
      if n > 0 then
        reach = math.max(reach, newest - b)
        local bit = b % buckets * r.bits
        local at, word = floor(bit, 8) + 1, n * 2 ^ (bit % 8)
        while word >= 1 do
          cells[at], word, at = cells[at] + word % 256, floor(word, 256), at + 1
        end
      end
    end
    return string.char(unpack(cells)), reach
  end

  -- encode returns an account as it is stored.
  local function encode(a)
    local h, body = {a.seen, a.since}, {}
    local function head(...)
      for _, v in ipairs({...}) do
        table.insert(h, v)
      end
    end
    for _, g in ipairs(a.groups) do
      head(g.serial, g.first, g.rest, floor(g.rest_at, g.tick) % 2 ^ 32, #g.hist, #g.void / 16)
      for _, r in ipairs(g.rings) do
        local cells, reach = encode_ring(r, floor(a.seen, r.width))
        head(r.bits, reach, r.total)
        table.insert(body, cells)
      end
      for _, t in ipairs(g.hist) do
        table.insert(body, pack('<I4', floor(t, g.tick) % 2 ^ 32))
      end
      table.insert(body, g.void)
    end
    return a.signature .. pack(head_form(a.groups), unpack(h)) .. table.concat(body)
  end

  local function sum(known)
    local n = 0
    for _, sp in ipairs(known) do
      n = n + sp.n
    end
    return n
  end

  -- spendings returns what a group knows of the past, newest first, and the time up to which it may have forgotten.
  local function spendings(g, seen)
    local known, at = {}, seen
    local function note(t, n)
      at = math.min(at, t)
      if n > 0 then
        table.insert(known, {at = at, n = n})
      end
    end
    for _, t in ipairs(g.hist) do
      note(t, 1)
    end
    if g.rest > 0 then
      note(g.rest_at, g.rest)
    end
    at = math.min(at, seen - g.span)
    local horizon = seen - g.span
    for _, r in ipairs(finest(g)) do
      local newer, newest = sum(known), floor(seen, r.width)
      for b = newest, newest - buckets + 1, -1 do
        local n = r.counts[b] or 0
        if n > 0 then
          local both = math.min(newer, n)
          newer = newer - both
          note((b + 1) * r.width - 1, n - both)
        end
      end
      local oldest = (newest - buckets + 1) * r.width - 1
      at, horizon = math.min(at, oldest), math.min(horizon, oldest)
    end
    return known, horizon
  end

  -- with_older adds what other knows of the time before the horizon. What both know, other's newest, is taken once.
  local function with_older(known, other, horizon)
    local all, newer = {unpack(known)}, sum(known)
    for _, sp in ipairs(other) do
      local both = math.min(newer, sp.n)
      newer = newer - both
      if sp.n > both then
        table.insert(all, {at = math.min(sp.at, horizon), n = sp.n - both})
      end
    end
    return all
  end

  -- widen makes room in a group that knows nothing, where a token has spent more than the limits admit and there is enough.
  local function widen(g, known, now, room)
    local stamps, counts, bits = 0, {}, {}
    for _, sp in ipairs(known) do
      if sp.at + g.span > now then
        stamps = math.min(stamps + sp.n, max_exact)
      end
      for i, r in ipairs(g.rings) do
        if sp.at + buckets * r.width > now then
          counts[i] = (counts[i] or 0) + sp.n
        end
      end
    end
    for i, r in ipairs(g.rings) do
      bits[i] = math.max(r.bits, bits_of(counts[i] or 0))
    end
    local capacity = g.capacity > 0 and math.max(g.capacity, stamps) or 0
    if bytes(capacity, g.rings, bits) > room then
      return
    end
    g.capacity = capacity
    for i, r in ipairs(g.rings) do
      r.bits = bits[i]
    end
  end

  -- fill has a group that knows nothing know that, newest first.
  local function fill(g, known, now, room)
    widen(g, known, now, room)
    for _, sp in ipairs(known) do
      for _, r in ipairs(g.rings) do
        ring_add(r, sp.at, sp.n, now)
      end
      if g.capacity > 0 and sp.at + g.span > now then
        local single = math.min(sp.n, g.capacity - #g.hist)
        for _ = 1, single do
          table.insert(g.hist, quantized(g, sp.at))
        end
        if single < sp.n and g.rest == 0 then
          g.rest_at = quantized(g, sp.at)
        end
        g.rest = g.rest + sp.n - single
      end
    end
  end

  -- laid returns the account of a policy that knows what was spent, under the limits that are enforced and in shadow.
  local function laid(a, signature, known, now)
    local fresh = {groups = groups(signature, now), signature = signature, seen = now, since = a.since}
    local base = {}
    for i, g in ipairs(fresh.groups) do
      local bits = {}
      for k, r in ipairs(g.rings) do
        bits[k] = r.bits
      end
      base[i] = bytes(g.capacity, g.rings, bits)
    end
    for i, g in ipairs(fresh.groups) do
      fill(g, known[i], now, i == 2 and base[2] or max_bytes - (base[2] or 0))
      local from = a.groups[i] or a.groups[1]
      if from then
        g.serial, g.void = from.serial, from.void
        g.first = math.max(from.first, g.serial + 1 - sum(known[i]))
      end
    end
    return fresh
  end

  -- known returns what an account knows of the past for each group of another policy.
  local function known_of(a, now)
    advance(a, now)
    if #a.groups == 0 then
      return {{}, {}}
    end
    local known, horizon = spendings(a.groups[1], now)
    if not a.groups[2] then
      return {known, known}
    end
    local shadowed = spendings(a.groups[2], now)
    return {with_older(known, shadowed, horizon), shadowed}
  end

  -- rebased brings an account to now, under the limits of the signature.
  local function rebased(a, signature, now)
    if a.signature == signature then
      advance(a, now)
      return a
    end
    return laid(a, signature, known_of(a, now), now)
  end

  return {decode = decode, encode = encode, advance = advance, rebased = rebased, laid = laid, known_of = known_of,
    marked = marked, skipped = skipped, is_spent = is_spent, ring_remove = ring_remove, floor = floor}
end
