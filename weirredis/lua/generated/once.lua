-- once decides an attempt or a record with an idempotency key, or returns its stored answer (R15).
--
-- KEYS     the histories, then the operation.
-- ARGV[1]  a request, as in kinds.lua.
-- ARGV[2]  packed: lifetime of the operation I7.
-- reply    as in kinds.lua; or 3 B, then the stored answer: a long reply of one.lua and the name of the limit that bound.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
--
-- An operation is stored as version B (1), kind B (0 attempt, 6 record, 9 refund), n I7 units; until I7 (the instant
-- at which it expires), then its answer. In the answer of a refund, the instant is that of the entry, granted is the
-- number of units that were taken, and the time of the reset is the instant of the decision.
local call, byte, sub, encode, decode = redis.call, string.byte, string.sub, struct.pack, struct.unpack
-- lengthy makes the functions for long histories. Every run of the script creates lengthy, so it uses no local
-- variable from outside: each would cost as much as the function itself.
local lengthy = function()
  local call, byte, encode, decode = redis.call, string.byte, struct.pack, struct.unpack
  local parse, skip, seek, retreat
  -- parse returns the head of a chunk: the mark of the entry after it, its units, the start of its entries.
  parse = function(text)
    if not text or #text < 12 then error('weir:state a chunk is missing or cut off', 0) end
    local behind, size, pieces = decode('>I7BB', text)
    local units, p = 0, 10 + pieces
    if #text <= p then error('weir:state a chunk is cut off', 0) end
    do
      local a, b, c, d, e = byte(text, p, p + 4)
      if a < 0x80 then units, p = a, p + 1
      elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
      elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
      elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
      elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
      elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', text, p + 1), p + 6
      else units, p = decode('>I7', text, p + 1) end
    end
    if #text - p + 1 ~= size then error('weir:state a chunk is cut off', 0) end
    return behind, units, p
  end
  -- skip passes whole chunks from c on and returns the first one that seek has to read.
  skip = function(key, c, u, sum, to, cut, need)
    local step, within = 1, -1
    while c < to do
      local names, blocks = {}, step > 1 and c % 32 == 0 and c + 32 <= to and c ~= within
      if blocks then
        for i = 1, math.min(128, math.floor((to - c) / 32)) do
          names[i] = 'b' .. encode('>I6', c / 32 + i - 1)
        end
      else
        for i = 1, math.min(step, to - c, 32 - c % 32) do
          names[i] = encode('>I6', c + i - 1)
        end
      end
      for i, text in ipairs(call('HMGET', key, unpack(names))) do
        local behind, units, p
        if blocks then
          if not text then within = c break end
          behind, units = decode('>I7I7', text)
        else
          behind, units, p = parse(text)
        end
        if units == 0 or behind > cut and sum + units >= need then
          if not blocks then return c, u, sum, text, p end
          within = c
          break
        end
        c, u, sum = c + (blocks and 32 or 1), behind, sum + units
      end
      step = 32
    end
    return c, u, sum
  end
  -- seek returns the place of an entry, from s[p] on; then the units before it, and its own. It is the first entry
  -- with a mark above cut with which at least need units have passed.
  seek = function(key, s, p, q, c, u, sum, to, z, o, cut, need)
    while true do
      while p < q do
        local behind = p
        local delta, n
        do
          local a, b, c, d, e = byte(s, behind, behind + 4)
          if a < 0x80 then delta, behind = a, behind + 1
          elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
          elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
          elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
          elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
          elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', s, behind + 1), behind + 6
          else delta, behind = decode('>I7', s, behind + 1) end
        end
        n = delta % 2
        delta = (delta - n) / 2
        if n == 1 then
          do
            local a, b, c, d, e = byte(s, behind, behind + 4)
            if a < 0x80 then n, behind = a, behind + 1
            elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
            elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
            elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
            elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
            elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', s, behind + 1), behind + 6
            else n, behind = decode('>I7', s, behind + 1) end
          end
        else
          n = 1
        end
        if u > cut and sum + n >= need then return s, p, q, c, u, sum, n end
        sum, u, p = sum + n, u + delta, behind
      end
      if p > q then error('weir:state an entry is cut off', 0) end
      local text, start
      if c < to then c, u, sum, text, start = skip(key, c, u, sum, to, cut, need) end
      if text then
        s, p, q, c = text, start, #text + 1, c + 1
      elseif c == to then
        s, p, q, c = z, o, #z + 1, to + 1
      else
        return z, #z + 1, #z + 1, to + 1, u, sum, 0
      end
    end
  end
  -- retreat removes the entries with marks above cut: the last of the others becomes the newest. It returns the rest
  -- of the history: front, first mark, end of the chunks, tail with its units, the newest entry (-1 if none is
  -- left), and the units of all.
  retreat = function(key, s, p, q, from, first, to, z, o, cut)
    local rs, rp, _, rc, u, kept = seek(key, s, p, q, from, first, 0, to, z, o, cut, 0)
    local b = p -- start of the run of the entry that becomes the newest.
    local begins = function()
      if rc == from then b = p elseif rc == to + 1 then b = o else _, _, b = parse(rs) end
    end
    begins()
    if rp == b and rc > from then -- the entry is the last of the run before.
      if rc == to + 1 then rc = to else rc = rc - 1 end
      if rc > from then rs = call('HGET', key, encode('>I6', rc - 1)) else rs, rc = s, from end
      begins()
      rp = rc == from and q or #rs + 1
    end
    if rp == b then return '', 1, 1, 0, from, '', 1, 0, -1, 0, 0 end
    local last, units, gap, late, at = b, 0, 0, 0, b
    while at < rp do
      last, late = at, late + units
      local delta, n
      do
        local a, b, c, d, e = byte(rs, at, at + 4)
        if a < 0x80 then delta, at = a, at + 1
        elseif a < 0xC0 then delta, at = (a - 0x80) * 0x100 + b, at + 2
        elseif a < 0xE0 then delta, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
        elseif a < 0xF0 then delta, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
        elseif a < 0xF8 then delta, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
        elseif a < 0xFC then delta, at = (a - 0xF8) * 0x10000000000 + decode('>I5', rs, at + 1), at + 6
        else delta, at = decode('>I7', rs, at + 1) end
      end
      n = delta % 2
      delta = (delta - n) / 2
      if n == 1 then
        do
          local a, b, c, d, e = byte(rs, at, at + 4)
          if a < 0x80 then n, at = a, at + 1
          elseif a < 0xC0 then n, at = (a - 0x80) * 0x100 + b, at + 2
          elseif a < 0xE0 then n, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
          elseif a < 0xF0 then n, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
          elseif a < 0xF8 then n, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
          elseif a < 0xFC then n, at = (a - 0xF8) * 0x10000000000 + decode('>I5', rs, at + 1), at + 6
          else n, at = decode('>I7', rs, at + 1) end
        end
      else
        n = 1
      end
      gap, units = delta, n
    end
    if rc == from then return s, p, last, first, from, '', 1, 0, u - gap, units, kept end
    if rc <= to then to = rc - 1 end
    return s, p, q, first, to, string.sub(rs, 1, last - 1), b, late, u - gap, units, kept
  end
  return parse, seek, retreat
end
local parse, seek, retreat
-- cost returns the time in which n units flow in: microseconds, and a numerator over per.
local cost = function(n, unit, part, per)
  local rest = n * part
  local left = rest % per
  return n * unit + (rest - left) / per, left
end
-- after returns the time by which debt + frac/per exceeds time + rest/per, rounded up; below 1 if it does not.
local after = function(debt, frac, time, rest)
  return debt - time + (frac > rest and 1 or 0)
end
-- missing returns the units of the time debt + frac/per, rounded up.
local missing = function(debt, frac, unit, part, per)
  if debt < 0 or debt == 0 and frac == 0 then return 0 end
  local most = math.floor(2251799813685247 / math.max(part, unit + 1))
  local n = math.min(math.ceil((debt + frac / per) / (unit + part / per)), most) -- the estimate is a few units off.
  while n > 0 and after(debt, frac, cost(n - 1, unit, part, per)) < 1 do n = n - 1 end
  while n < most and after(debt, frac, cost(n, unit, part, per)) > 0 do n = n + 1 end
  return n
end
local virtual, widest, keys, arg = true, 0, 0, ARGV[1]
local kind, times, n, raw, count, states, at = decode('>BBI7I7BB', arg)
states = states == 1
-- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
if raw > 9007199254740991 then
  virtual = false
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
local op, operation = kind >= 6 and 6 or 0, KEYS[count + 1]
-- known: the stored operation, or nil; was: its kind; units: its units (R15).
local known, was, units = operation and call('GET', operation), nil, nil
if known then
  if byte(known) ~= 1 then
    error('weir:state version ' .. string.format('%.0f', byte(known) or 0) .. ' of an operation', 0)
  elseif #known < 62 then
    error('weir:state the operation is cut off', 0)
  end
  local _, ends
  _, was, units, ends = decode('>BBI7I7', known)
  if raw >= ends then known = nil end
end
if known then
  if was ~= op or units ~= n then error('weir:id ' .. string.format('%.0f %.0f', was, units), 0) end
  return encode('>B', 3) .. string.sub(known, 17)
end
-- the limits of the request, and room for the state of their histories.
local limits = {}
for i = 1, count do
  limits[i] = { key = false, max = 0, window = 0, gap = 0, cell = 0, cost = 0, n = 0, s = false, p = false, q = false, z = false, o = false, late = false, from = false, to = false, low = false, top = false, wide = false, last = false, newest = false, first = false, units = false, total = false, lives = false, cut = false, used = false, ls = false, lp = false, lq = false, lc = false, lu = false, own = false, edge = false, push = false, redated = false, room = false, closed = false, wait = false, reset = false, next = false, gapwait = false, debt = false, frac = false, since = false, ahead = false, unit = false, part = false, per = false, most = false, wasunit = false, waspart = false, wasper = false, edge1 = false, edge2 = false, edge3 = false, edge4 = false, begin = false, ends = false }
end
for index = 1, count do local H = limits[index]
  H.key = KEYS[keys + index]
  H.max, H.window, H.gap, H.cell, H.cost, at = decode('>I7I6I6I6I7', arg, at)
  -- the further numbers of a Bucket or a Period.
  if H.cell == 281474976710652 then H.unit, H.part, H.per, H.most, at = decode('>I6I7I7I7', arg, at)
  elseif H.cell == 281474976710653 then H.edge1, H.edge2, H.edge3, H.edge4, at = decode('>I7I7I7I7', arg, at) end
  H.n = H.cost > 0 and n > 0 and H.cost or n -- R7
  if H.cost > 9007199254740991 then H.n = 0 end
  if H.window > widest then widest = H.window end
end
local now, corrected = raw, false
for index = 1, count do local H = limits[index]
  H.s = call('HGET', H.key, 'h')
  H.low, H.top, H.from, H.to, H.late, H.wide = 0, 0, 0, 0, 0, false
  H.debt = false
  if not H.s then
    H.s, H.p, H.q, H.o = '', 1, 1, 1
    H.last, H.newest, H.first, H.units, H.total, H.lives = -9007199254740992, 0, 0, 0, 0, 0
    if H.cell == 281474976710652 then H.debt, H.frac, H.since, H.wasunit, H.waspart, H.wasper = 0, 0, 0, H.unit, H.part, H.per end
  elseif H.cell == 281474976710652 then
    local form, _ = byte(H.s), nil
    if form == 8 and #H.s == 54 then
      _, H.last, H.debt, H.frac, H.since, H.lives, H.wasunit, H.waspart, H.wasper = decode('>BI7I7I7I7I5I6I7I7', H.s)
    elseif form == 9 and #H.s == 33 then
      _, H.last, H.debt, H.since, H.lives, H.wasunit = decode('>BI7I7I7I5I6', H.s)
      H.frac, H.waspart, H.wasper = 0, 0, 1
    elseif form and form ~= 8 and form ~= 9 then
      error('weir:state version ' .. string.format('%.0f', form), 0)
    else
      error('weir:state the header is cut off', 0)
    end
  else
    local form, size, behind, _ = byte(H.s), #H.s, 0
    H.wide = form == 2 or form == 4
    if form == 5 and size >= 26 then
      _, H.last, H.first, H.lives, H.units, H.total, H.q, H.p = decode('>BI7I7I5I2I3B', H.s)
      H.newest = H.last
    elseif form == 2 and size >= 42 then
      _, H.last, H.newest, H.first, H.lives, H.units, H.total, H.q, H.p = decode('>BI7I7I7I5I7I7B', H.s)
    elseif form == 6 and size >= 40 then
      _, H.last, H.first, H.lives, H.units, H.total, H.q, behind, H.late, H.from, H.to, H.p = decode('>BI7I7I5I2I4BBI4I6I2', H.s)
      H.newest, H.to, H.low = H.last, H.from + H.to, H.from
      H.top = H.to
    elseif form == 4 and size >= 68 then
      _, H.last, H.newest, H.first, H.lives, H.units, H.total, H.low, H.from, H.to, H.top, H.late, H.q, behind, H.p =
      decode('>BI7I7I7I5I7I7I6I4I4I4I7BB', H.s)
      H.from, H.to, H.top = H.low + H.from, H.low + H.to, H.low + H.top
    elseif form and form ~= 2 and (form < 4 or form > 6) then
      error('weir:state version ' .. string.format('%.0f', form), 0)
    else
      error('weir:state the header is cut off', 0)
    end
    H.q = H.p + H.q
    H.o = H.q
    if size ~= H.o + behind - 1 then error('weir:state the header is cut off', 0) end
  end
  H.z = H.s
  -- a clock less than a second behind the history moves forward to it (R2).
  if H.last > raw then
    if H.last - raw >= 1000000 then corrected = true
    elseif H.last > now then now = H.last end
  end
end
for index = 1, count do local H = limits[index]
  -- the history as seen by a decision at now.
  H.cut, H.push, H.redated = now - H.window, false, false
  -- the window of now; the script never decides outside of the windows around the caller's time (R3).
  H.ends = false
  if H.cell == 281474976710653 then
    if now < H.edge1 or now >= H.edge4 then return encode('>BI7', 4, now) end
    H.begin, H.ends = H.edge2, H.edge3
    if now < H.edge2 then H.begin, H.ends = H.edge1, H.edge2 elseif now >= H.edge3 then H.begin, H.ends = H.edge3, H.edge4 end
    H.cut = H.begin - 1
  end
  if H.debt then
    -- the bucket at now. After a correction of the clock as much is missing as at the newest attempt (R2).
    if corrected and H.last - raw >= 1000000 then
      H.debt = H.debt - math.max(H.since - H.last, 0)
      if H.debt < 0 then H.debt, H.frac = 0, 0 end
      H.last, H.since, H.redated = now, math.min(H.since, now), true
    else
      H.debt = H.debt - (now - H.last)
    end
    H.ahead = math.max(H.since - now, 0)
    if H.debt < H.ahead or H.debt == H.ahead and H.frac == 0 then H.debt, H.frac, H.since = H.ahead, 0, now + H.ahead end
    if H.wasunit ~= H.unit or H.waspart ~= H.part or H.wasper ~= H.per then
      -- the whole units that are missing stay, and so does the time that the next one has waited, rounded up, but at
      -- most a whole unit (R12).
      H.debt = H.debt - H.ahead
      local units = missing(H.debt, H.frac, H.wasunit, H.waspart, H.wasper)
      local time, rest = cost(units, H.wasunit, H.waspart, H.wasper)
      local waited = after(time, rest, H.debt, H.frac)
      units, H.redated = math.min(units, H.most), true
      if units > 0 and after(H.unit, H.part, waited, 0) < 1 then units, waited = units - 1, 0 end
      H.debt, H.frac = cost(units, H.unit, H.part, H.per)
      H.debt, H.since, H.ahead = H.debt - waited, now, 0
    end
    H.used = missing(H.debt - H.ahead, H.frac, H.unit, H.part, H.per)
  else
    if corrected and H.last - raw >= 1000000 then
      -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
      H.last, H.redated = now, true
      local mark
      mark = now
      if H.cell > 0 and H.cell < 281474976710652 then
        mark = now - now % H.cell + H.cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif H.cell == 281474976710655 then mark = now - now % H.window
      elseif H.ends then mark = H.begin -- AT is now.
      end
      if H.newest > mark then
        if not seek then parse, seek, retreat = lengthy() end
        local all, kept = H.total
        H.s, H.p, H.q, H.first, H.to, H.z, H.o, H.late, H.newest, H.units, kept =
        retreat(H.key, H.s, H.p, H.q, H.from, H.first, H.to, H.z, H.o, mark - 1)
        if H.newest < 0 then
          H.first = mark
        else
          local e
          do
            local v = (mark - H.newest) * 2
            if H.units == 1 then
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
            else
              local units
              v = v + 1
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
              v = H.units
              if v < 0x80 then units = encode('B', v)
              elseif v < 0x4000 then units = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then units = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then units = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then units = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then units = encode('>I6', v + 0xF80000000000)
              else units = encode('>BI7', 0xFC, v) end
              e = e .. units
            end
          end
          H.z, H.o, H.late = string.sub(H.z, H.o) .. e, 1, H.late + H.units
        end
        H.newest, H.units = mark, math.min(all - kept, 2251799813685247)
        H.total = kept + H.units
      end
    end
    -- the entries that count at now (R3).
    H.edge, H.own = H.newest, H.units
    H.ls, H.lp, H.lq, H.lc, H.lu = H.s, H.p, H.q, H.from, H.first
    if H.newest <= H.cut then
      H.used, H.own = 0, 0
      -- no older entry counts.
      H.ls, H.lp, H.lq, H.lc, H.lu = '', 1, 1, H.to + 1, H.edge
    elseif H.lu > H.cut then
      H.used = H.total
    else
      local gone = 0
      repeat
        if H.lp < H.lq then
          local delta, n
          do
            local a, b, c, d, e = byte(H.ls, H.lp, H.lp + 4)
            if a < 0x80 then delta, H.lp = a, H.lp + 1
            elseif a < 0xC0 then delta, H.lp = (a - 0x80) * 0x100 + b, H.lp + 2
            elseif a < 0xE0 then delta, H.lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, H.lp + 3
            elseif a < 0xF0 then delta, H.lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, H.lp + 4
            elseif a < 0xF8 then delta, H.lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, H.lp + 5
            elseif a < 0xFC then delta, H.lp = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, H.lp + 1), H.lp + 6
            else delta, H.lp = decode('>I7', H.ls, H.lp + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(H.ls, H.lp, H.lp + 4)
              if a < 0x80 then n, H.lp = a, H.lp + 1
              elseif a < 0xC0 then n, H.lp = (a - 0x80) * 0x100 + b, H.lp + 2
              elseif a < 0xE0 then n, H.lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, H.lp + 3
              elseif a < 0xF0 then n, H.lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, H.lp + 4
              elseif a < 0xF8 then n, H.lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, H.lp + 5
              elseif a < 0xFC then n, H.lp = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, H.lp + 1), H.lp + 6
              else n, H.lp = decode('>I7', H.ls, H.lp + 1) end
            end
          else
            n = 1
          end
          gone, H.lu = gone + n, H.lu + delta
        elseif H.lc < H.to then
          -- the next chunk; if none of its entries counts, seek skips chunks and blocks.
          local text = call('HGET', H.key, encode('>I6', H.lc))
          if not text or #text < 12 then error('weir:state a chunk is missing or cut off', 0) end
          local behind, size, pieces = decode('>I7BB', text)
          local units, p = 0, 10 + pieces
          if #text <= p then error('weir:state a chunk is cut off', 0) end
          do
            local a, b, c, d, e = byte(text, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', text, p + 1), p + 6
            else units, p = decode('>I7', text, p + 1) end
          end
          if #text - p + 1 ~= size then error('weir:state a chunk is cut off', 0) end
          if behind > H.cut then
            H.ls, H.lp, H.lq, H.lc = text, p, #text + 1, H.lc + 1
          else
            if not seek then parse, seek, retreat = lengthy() end
            H.ls, H.lp, H.lq, H.lc, H.lu, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, gone, H.to, H.z, H.o, H.cut, 0)
          end
        elseif H.lc == H.to then
          H.ls, H.lp, H.lq, H.lc = H.z, H.o, #H.z + 1, H.to + 1
        else
          error('weir:state an entry is missing', 0)
        end
      until H.lu > H.cut
      H.used = H.total - gone
    end
  end
  H.room = H.max - H.used -- R5
  H.closed = now - H.last < H.gap
end
local room, open, fits = 9007199254740991, true, true
for index = 1, count do local H = limits[index]
  if H.room < room then room = H.room end
  if H.n > H.room then fits = false end
  if H.closed then open = false end
end
-- granted: units of the decision. add: units to record, in every limit or in none (R6, R7, R10).
local mode, granted, add, full = kind % 3, 0, 0, open and fits
if kind >= 6 then
  for index = 1, count do local H = limits[index]
    local units = H.n
    local most = H.debt and H.most or 2251799813685247
    if mode == 2 and units > H.max and not H.debt then units = H.max end
    if H.used + units > most then
      error('weir:overflow ' .. index .. ' ' .. string.format('%.0f', H.used), 0)
    end
  end
  granted, add, full = n, n, true
else
  if full then
    granted = n
    -- merged callers are decided at one instant, one after the other, until one is denied.
    if times > 1 then
      local fit = math.min(times, math.floor(room / n))
      for index = 1, count do local H = limits[index] if H.gap > 0 then fit = 1 end end
      granted, full = fit * n, fit == times
    end
  elseif mode == 1 and open and room > 0 then
    granted = room
  end
  if kind < 3 then add = granted end
  if kind == 2 then add = n end
end
-- The state after the decision, and the waits (R8). Every call that can fail runs before the first write.
local wait, reset, remaining, bound, longest, validFor = 0, 0, 9007199254740991, 0, 0, 9007199254740991
for index = 1, count do local H = limits[index]
  if add > 0 and H.n > 0 then
    if H.debt then
      -- R16: a denied attempt in CountDenied takes at most until the bucket is empty.
      local units, time, rest = H.cost > 0 and H.cost or add, nil, nil
      if kind < 6 and granted == 0 and units > H.max - H.used then
        time, rest = cost(H.max, H.unit, H.part, H.per)
        time = time + H.ahead
        if after(time, rest, H.debt, H.frac) > 0 then H.debt, H.frac = time, rest end
      else
        time, rest = cost(units, H.unit, H.part, H.per)
        H.debt, H.frac = H.debt + time, H.frac - (H.per - rest)
        if H.frac < 0 then H.frac = H.frac + H.per else H.debt = H.debt + 1 end
      end
      H.last, H.used = now, missing(H.debt - H.ahead, H.frac, H.unit, H.part, H.per)
    else
      -- in memory: the new units replace the entries that no longer count (R4).
      local add = H.cost > 0 and H.cost or add
      local units = add
      -- adds units at now (R4, R7).
      local mark
      mark = now
      if H.cell > 0 and H.cell < 281474976710652 then
        mark = now - now % H.cell + H.cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif H.cell == 281474976710655 then mark = now - now % H.window
      elseif H.ends then mark = H.begin -- AT is now.
      end
      local merges = mark <= H.newest -- a mark never runs back (R9).
      merges = merges or H.cell == 281474976710654 and H.own > 0 -- an open window takes all units (R3).
      if mode == 2 then
        -- CountDenied: keeps the newest entries that reach Max, and the oldest of them whole (R6). An entry counts at most
        -- Max.
        local most = merges and H.max - H.own or H.max
        if units > most then units = most end
        local spare, gone = H.used - H.max + units, 0
        if spare >= 0 and H.lu < H.edge then
          if not seek then parse, seek, retreat = lengthy() end
          H.ls, H.lp, H.lq, H.lc, H.lu, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, -1, spare + 1)
        end
        if not merges and H.lu == H.edge and gone + H.own <= spare then gone, H.own = gone + H.own, 0 end
        H.used = H.used - gone
      end
      if merges then
        H.own = H.own + units
      else
        if H.own > 0 or H.lu < H.edge then H.push = H.own else H.lu, H.edge = mark, mark end
        H.newest, H.own = mark, units
      end
      H.used, H.last = H.used + units, now
      if mode == 2 and H.max == 0 then -- a limit of 0 keeps no entry (R6).
        H.newest, H.edge, H.push = 0, 0, false
        -- no older entry counts.
        H.ls, H.lp, H.lq, H.lc, H.lu = '', 1, 1, H.to + 1, H.edge
      end
    end
  end
  -- H.wait: until n more units fit. H.reset: until no unit counts. H.next: until the oldest entry leaves (R8).
  H.gapwait = now - H.last < H.gap and H.gap - (now - H.last) or 0
  H.wait = H.gapwait
  if H.debt then
    -- until n more units are there, the next one, and all of them.
    H.next, H.reset = 0, H.used > 0 and after(H.debt, H.frac, 0, 0) or 0
    if H.n > H.max then
      H.wait = -1
    elseif H.n > H.max - H.used then
      H.wait = math.max(H.wait, after(H.debt, H.frac, cost(H.max - H.n, H.unit, H.part, H.per)))
    end
    if H.used > 0 then H.next = after(H.debt, H.frac, cost(H.used - 1, H.unit, H.part, H.per)) end
  else
    local need, at = H.used - H.max + H.n, nil
    if H.n > H.max then
      H.wait = -1
    elseif need > 0 then
      at = nil
      local gone = 0
      if H.lu < H.edge then
        if H.lp < H.lq then -- mostly the oldest entry is enough.
          local behind = H.lp
          local delta, n
          do
            local a, b, c, d, e = byte(H.ls, behind, behind + 4)
            if a < 0x80 then delta, behind = a, behind + 1
            elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
            elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
            elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
            elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
            elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, behind + 1), behind + 6
            else delta, behind = decode('>I7', H.ls, behind + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(H.ls, behind, behind + 4)
              if a < 0x80 then n, behind = a, behind + 1
              elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
              elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
              elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
              elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
              elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, behind + 1), behind + 6
              else n, behind = decode('>I7', H.ls, behind + 1) end
            end
          else
            n = 1
          end
          if n >= need then at = H.lu end
        end
        if not at then
          if not seek then parse, seek, retreat = lengthy() end
          local _, u
          _, _, _, _, u, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, -1, need)
          if u < H.edge then at = u end
        end
      end
      if not at then
        if H.push and gone + H.push >= need then at = H.edge else at = H.newest end
      end
      if (H.ends and H.ends - now or at - now + H.window) > H.wait then H.wait = (H.ends and H.ends - now or at - now + H.window) end
    end
    H.reset, H.next = 0, 0
    if H.used > 0 then
      H.reset = (H.ends and H.ends - now or H.newest - now + H.window)
      if states or not full then
        if need ~= 1 or H.n > H.max then
          at = nil
          local gone = 0
          if H.lu < H.edge then
            if H.lp < H.lq then -- mostly the oldest entry is enough.
              local behind = H.lp
              local delta, n
              do
                local a, b, c, d, e = byte(H.ls, behind, behind + 4)
                if a < 0x80 then delta, behind = a, behind + 1
                elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
                elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, behind + 1), behind + 6
                else delta, behind = decode('>I7', H.ls, behind + 1) end
              end
              n = delta % 2
              delta = (delta - n) / 2
              if n == 1 then
                do
                  local a, b, c, d, e = byte(H.ls, behind, behind + 4)
                  if a < 0x80 then n, behind = a, behind + 1
                  elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
                  elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                  elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                  elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                  elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, behind + 1), behind + 6
                  else n, behind = decode('>I7', H.ls, behind + 1) end
                end
              else
                n = 1
              end
              if n >= 1 then at = H.lu end
            end
            if not at then
              if not seek then parse, seek, retreat = lengthy() end
              local _, u
              _, _, _, _, u, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, -1, 1)
              if u < H.edge then at = u end
            end
          end
          if not at then
            if H.push and gone + H.push >= 1 then at = H.edge else at = H.newest end
          end
        end
        H.next = (H.ends and H.ends - now or at - now + H.window)
      end
    end
  end
  if wait >= 0 and H.wait > wait or H.wait < 0 then wait = H.wait end
  if H.reset > reset then reset = H.reset end
  if H.max - H.used < remaining then remaining = H.max - H.used end
  if not full then
    if H.next > 0 and H.next < validFor then validFor = H.next end
    if H.gapwait > 0 and H.gapwait < validFor then validFor = H.gapwait end
    -- bound: the limit because of which the attempt was not granted in full (R8).
    if times > 1 then H.room, H.closed = H.max - H.used, H.gapwait > 0 end -- for the first denied caller.
    if granted > 0 and times == 1 then
      if bound == 0 or H.room < longest then bound, longest = index, H.room end
    elseif H.closed or (mode == 1 and H.room <= 0) or (mode ~= 1 and H.room < H.n) then
      if bound == 0 or longest >= 0 and (H.wait > longest or H.wait < 0) then bound, longest = index, H.wait end
    end
  end
end
for index = 1, count do local H = limits[index]
  if H.debt then
    if add > 0 and H.n > 0 or H.redated and kind < 3 then
      -- stores the bucket.
      local full = cost(H.max, H.unit, H.part, H.per) + 1
      -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of full (R13).
      local renew
      local ends = math.max(now + full, now + 1 + H.debt, H.last + H.gap)
      -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a full.
      local spare, virtually = full / 4, 0
      if virtual then spare, virtually = full, 549755813888 end
      local promised = (H.lives - virtually) * 1000000 -- far out of range if the other clock set it.
      if promised < ends or promised > ends + spare + 1000000 then
        ends = ends + spare
        H.lives = math.ceil(ends / 1000000) + virtually
        if ends < raw then ends = raw end -- a refund may leave nothing that counts.
        renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
      end
      local debt, head = H.debt + (now - H.last), nil
      if H.per == 1 then
        head = encode('>BI7I7I7I5I6', 9, H.last, debt, H.since, H.lives, H.unit)
      else
        head = encode('>BI7I7I7I7I5I6I7I7', 8, H.last, debt, H.frac, H.since, H.lives, H.unit, H.part, H.per)
      end
      call('HSET', H.key, 'h', head)
      if renew then call('PEXPIRE', H.key, string.format('%.0f', renew)) end
    end
  else
    if add > 0 and H.n > 0 then
      -- writes the history from its place on, then H.push units of the entry at H.edge, in one HSET.
      do
        local e = ''
        if H.push then do
            local v = (H.newest - H.edge) * 2
            if H.push == 1 then
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
            else
              local units
              v = v + 1
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
              v = H.push
              if v < 0x80 then units = encode('B', v)
              elseif v < 0x4000 then units = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then units = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then units = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then units = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then units = encode('>I6', v + 0xF80000000000)
              else units = encode('>BI7', 0xFC, v) end
              e = e .. units
            end
          end end
        local from, front, tail, body, left, rest = H.lc, H.lq - H.lp, #e, nil, nil, nil
        if from > H.to then -- the place is in the tail, or no older entry is left.
          from, H.late, body = H.to, 0, string.sub(H.ls, H.lp, H.lq - 1)
        elseif H.ls == H.z and H.lq == H.o then
          tail, body = tail + #H.z - H.o + 1, string.sub(H.ls, H.lp)
        else
          tail, body = tail + #H.z - H.o + 1, string.sub(H.ls, H.lp, H.lq - 1) .. string.sub(H.z, H.o)
        end
        if H.push then H.late = H.late + H.push end
        if from == H.to and front + tail <= 88 then
          front, tail, H.late = front + tail, 0, 0
        elseif H.lc > H.from and H.lc <= H.to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(H.ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(H.ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, p + 1), p + 6
            else units, p = decode('>I7', H.ls, p + 1) end
          end
          while i < pieces and p < H.lp do p, i = p + byte(H.ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = H.lc - 1, 0, string.sub(H.z, H.o)
          elseif i < pieces then
            from, front, body = H.lc - 1, p - H.lp, string.sub(H.ls, H.lp, p - 1) .. string.sub(H.z, H.o)
            left, rest = encode('>I6', from), string.sub(H.ls, 1, 7) .. encode('BB', H.lq - p, pieces - i) ..
            string.sub(H.ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(H.ls, p)
          end
        end
        if from == H.to and front + tail == 0 and H.low < H.top then -- only the newest entry is left of many.
          call('UNLINK', H.key)
          H.low, H.top, H.to, H.lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < H.to and H.to % 32 ~= 0 then
            name = encode('>I6', H.to - 1)
            text = left == name and rest or call('HGET', H.key, name)
          end
          -- start: where the entries of the chunk text begin, if tail more bytes fit into it.
          if text and #text >= 12 then
            local _
            _, entries, pieces = decode('>I7BB', text)
            if entries + tail <= 200 and #text - entries > 9 + pieces then start = #text - entries + 1 end
          end
          if start then
            if left == name then left, rest = nil, nil end
            local units, p = 0, 10 + pieces
            do
              local a, b, c, d, e = byte(text, p, p + 4)
              if a < 0x80 then units, p = a, p + 1
              elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
              elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
              elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
              elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
              elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', text, p + 1), p + 6
              else units, p = decode('>I7', text, p + 1) end
            end
            if units > 0 then units = units + H.late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', H.newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', H.to)
            if from == H.to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if H.used - H.own < 0x80 then held = encode('B', H.used - H.own)
              elseif H.used - H.own < 0x4000 then held = encode('>I2', H.used - H.own + 0x8000)
              elseif H.used - H.own < 0x200000 then held = encode('>I3', H.used - H.own + 0xC00000)
              elseif H.used - H.own < 0x10000000 then held = encode('>I4', H.used - H.own + 0xE0000000)
              elseif H.used - H.own < 0x800000000 then held = encode('>I5', H.used - H.own + 0xF000000000)
              elseif H.used - H.own < 0x40000000000 then held = encode('>I6', H.used - H.own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, H.used - H.own) end
              chunk, front = encode('>I7BBBB', H.newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if H.late < 0x80 then held = encode('B', H.late)
              elseif H.late < 0x4000 then held = encode('>I2', H.late + 0x8000)
              elseif H.late < 0x200000 then held = encode('>I3', H.late + 0xC00000)
              elseif H.late < 0x10000000 then held = encode('>I4', H.late + 0xE0000000)
              elseif H.late < 0x800000000 then held = encode('>I5', H.late + 0xF000000000)
              elseif H.late < 0x40000000000 then held = encode('>I6', H.late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, H.late) end
              chunk = encode('>I7BBB', H.newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (H.to + 1) % 32 == 0 and H.to + 1 - 32 >= from then
              local names, sum = {}, H.late
              for i = 1, 32 - 1 do names[i] = encode('>I6', H.to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', H.key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', H.newest, sum) end
            end
            H.to = H.to + 1
            if H.top < H.to then H.top = H.to end
          end
          body, e, tail, H.late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if H.low + 1 == from and H.top == H.to and from % 32 ~= 0 then -- the most frequent case.
          dead, H.low = encode('>I6', H.low), from
        elseif H.low < from or H.top > H.to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while H.low < from and #dead < 16 do
            forget(H.low)
            H.low = H.low + 1
          end
          while H.top > H.to and #dead < 16 do
            H.top = H.top - 1
            forget(H.top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of H.window (R13).
        local renew
        local ends = H.ends and math.max(H.ends, H.last + H.gap) or H.window + (H.newest > H.last and H.newest or H.last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a H.window.
        local spare, virtually = H.window / 4, 0
        if virtual then spare, virtually = H.window, 549755813888 end
        local promised = (H.lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          H.lives = math.ceil(ends / 1000000) + virtually
          if ends < raw then ends = raw end -- a refund may leave nothing that counts.
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = H.newest == H.last and H.own < 65536 and not (H.wide and H.lu < H.newest)
        if H.low == H.top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, H.last, H.lu, H.lives, H.own, H.used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, H.last, H.newest, H.lu, H.lives, H.own, H.used, front)
          end
        elseif narrow and H.used < 4294967296 and H.low == from and H.top == H.to and H.to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, H.last, H.lu, H.lives, H.own, H.used, front, tail, H.late, from, H.to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, H.last, H.newest, H.lu, H.lives, H.own, H.used,
          H.low, from - H.low, H.to - H.low, H.top - H.low, H.late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', H.key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', H.to / 32 - 1), block end
          call('HSET', H.key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', H.key, unpack(dead)) else call('HDEL', H.key, dead) end
        end
        if renew then call('PEXPIRE', H.key, string.format('%.0f', renew)) end
      end
    elseif H.redated and kind < 3 then -- a denied attempt stores the correction and drops no entry (R2, R4).
      local used = H.used
      H.ls, H.lp, H.lq, H.lc, H.lu, H.own, H.used = H.s, H.p, H.q, H.from, H.first, H.units, H.total
      -- writes the history from its place on, then H.push units of the entry at H.edge, in one HSET.
      do
        local e = ''
        if H.push then do
            local v = (H.newest - H.edge) * 2
            if H.push == 1 then
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
            else
              local units
              v = v + 1
              if v < 0x80 then e = encode('B', v)
              elseif v < 0x4000 then e = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then e = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then e = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then e = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then e = encode('>I6', v + 0xF80000000000)
              else e = encode('>BI7', 0xFC, v) end
              v = H.push
              if v < 0x80 then units = encode('B', v)
              elseif v < 0x4000 then units = encode('>I2', v + 0x8000)
              elseif v < 0x200000 then units = encode('>I3', v + 0xC00000)
              elseif v < 0x10000000 then units = encode('>I4', v + 0xE0000000)
              elseif v < 0x800000000 then units = encode('>I5', v + 0xF000000000)
              elseif v < 0x40000000000 then units = encode('>I6', v + 0xF80000000000)
              else units = encode('>BI7', 0xFC, v) end
              e = e .. units
            end
          end end
        local from, front, tail, body, left, rest = H.lc, H.lq - H.lp, #e, nil, nil, nil
        if from > H.to then -- the place is in the tail, or no older entry is left.
          from, H.late, body = H.to, 0, string.sub(H.ls, H.lp, H.lq - 1)
        elseif H.ls == H.z and H.lq == H.o then
          tail, body = tail + #H.z - H.o + 1, string.sub(H.ls, H.lp)
        else
          tail, body = tail + #H.z - H.o + 1, string.sub(H.ls, H.lp, H.lq - 1) .. string.sub(H.z, H.o)
        end
        if H.push then H.late = H.late + H.push end
        if from == H.to and front + tail <= 88 then
          front, tail, H.late = front + tail, 0, 0
        elseif H.lc > H.from and H.lc <= H.to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(H.ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(H.ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', H.ls, p + 1), p + 6
            else units, p = decode('>I7', H.ls, p + 1) end
          end
          while i < pieces and p < H.lp do p, i = p + byte(H.ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = H.lc - 1, 0, string.sub(H.z, H.o)
          elseif i < pieces then
            from, front, body = H.lc - 1, p - H.lp, string.sub(H.ls, H.lp, p - 1) .. string.sub(H.z, H.o)
            left, rest = encode('>I6', from), string.sub(H.ls, 1, 7) .. encode('BB', H.lq - p, pieces - i) ..
            string.sub(H.ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(H.ls, p)
          end
        end
        if from == H.to and front + tail == 0 and H.low < H.top then -- only the newest entry is left of many.
          call('UNLINK', H.key)
          H.low, H.top, H.to, H.lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < H.to and H.to % 32 ~= 0 then
            name = encode('>I6', H.to - 1)
            text = left == name and rest or call('HGET', H.key, name)
          end
          -- start: where the entries of the chunk text begin, if tail more bytes fit into it.
          if text and #text >= 12 then
            local _
            _, entries, pieces = decode('>I7BB', text)
            if entries + tail <= 200 and #text - entries > 9 + pieces then start = #text - entries + 1 end
          end
          if start then
            if left == name then left, rest = nil, nil end
            local units, p = 0, 10 + pieces
            do
              local a, b, c, d, e = byte(text, p, p + 4)
              if a < 0x80 then units, p = a, p + 1
              elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
              elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
              elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
              elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
              elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', text, p + 1), p + 6
              else units, p = decode('>I7', text, p + 1) end
            end
            if units > 0 then units = units + H.late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', H.newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', H.to)
            if from == H.to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if H.used - H.own < 0x80 then held = encode('B', H.used - H.own)
              elseif H.used - H.own < 0x4000 then held = encode('>I2', H.used - H.own + 0x8000)
              elseif H.used - H.own < 0x200000 then held = encode('>I3', H.used - H.own + 0xC00000)
              elseif H.used - H.own < 0x10000000 then held = encode('>I4', H.used - H.own + 0xE0000000)
              elseif H.used - H.own < 0x800000000 then held = encode('>I5', H.used - H.own + 0xF000000000)
              elseif H.used - H.own < 0x40000000000 then held = encode('>I6', H.used - H.own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, H.used - H.own) end
              chunk, front = encode('>I7BBBB', H.newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if H.late < 0x80 then held = encode('B', H.late)
              elseif H.late < 0x4000 then held = encode('>I2', H.late + 0x8000)
              elseif H.late < 0x200000 then held = encode('>I3', H.late + 0xC00000)
              elseif H.late < 0x10000000 then held = encode('>I4', H.late + 0xE0000000)
              elseif H.late < 0x800000000 then held = encode('>I5', H.late + 0xF000000000)
              elseif H.late < 0x40000000000 then held = encode('>I6', H.late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, H.late) end
              chunk = encode('>I7BBB', H.newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (H.to + 1) % 32 == 0 and H.to + 1 - 32 >= from then
              local names, sum = {}, H.late
              for i = 1, 32 - 1 do names[i] = encode('>I6', H.to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', H.key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', H.newest, sum) end
            end
            H.to = H.to + 1
            if H.top < H.to then H.top = H.to end
          end
          body, e, tail, H.late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if H.low + 1 == from and H.top == H.to and from % 32 ~= 0 then -- the most frequent case.
          dead, H.low = encode('>I6', H.low), from
        elseif H.low < from or H.top > H.to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while H.low < from and #dead < 16 do
            forget(H.low)
            H.low = H.low + 1
          end
          while H.top > H.to and #dead < 16 do
            H.top = H.top - 1
            forget(H.top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of H.window (R13).
        local renew
        local ends = H.ends and math.max(H.ends, H.last + H.gap) or H.window + (H.newest > H.last and H.newest or H.last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a H.window.
        local spare, virtually = H.window / 4, 0
        if virtual then spare, virtually = H.window, 549755813888 end
        local promised = (H.lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          H.lives = math.ceil(ends / 1000000) + virtually
          if ends < raw then ends = raw end -- a refund may leave nothing that counts.
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = H.newest == H.last and H.own < 65536 and not (H.wide and H.lu < H.newest)
        if H.low == H.top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, H.last, H.lu, H.lives, H.own, H.used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, H.last, H.newest, H.lu, H.lives, H.own, H.used, front)
          end
        elseif narrow and H.used < 4294967296 and H.low == from and H.top == H.to and H.to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, H.last, H.lu, H.lives, H.own, H.used, front, tail, H.late, from, H.to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, H.last, H.newest, H.lu, H.lives, H.own, H.used,
          H.low, from - H.low, H.to - H.low, H.top - H.low, H.late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', H.key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', H.to / 32 - 1), block end
          call('HSET', H.key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', H.key, unpack(dead)) else call('HDEL', H.key, dead) end
        end
        if renew then call('PEXPIRE', H.key, string.format('%.0f', renew)) end
      end
      H.used = used
    end
  end
end
local reply
-- the long reply, with the time for which a denial stays the same.
reply = encode('>BBI7i8I7i8I7I7', 0, bound, granted, remaining, now, wait, reset, full and 0 or validFor)
if states then
  -- behind the reply, the state of every limit.
  for index = 1, count do local H = limits[index]
    reply = reply .. encode('>i8i8i8i8i8', H.max - H.used, H.wait, H.next, H.gapwait, H.reset)
  end
end
if add > 0 then -- the answer is stored with the histories, or not at all.
  local ends = now + decode('>I7', ARGV[2])
  local name = bound > 0 and string.match(KEYS[bound], '}([^:/]+)') or ''
  local lives = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0) -- R13
  local answer = reply
  -- the long reply, with the time for which a denial stays the same.
  reply = encode('>BBI7i8I7i8I7I7', 0, bound, granted, remaining, now, wait, reset, 0)
  call('SET', operation, encode('>BBI7I7', 1, op, n, ends) .. reply .. name, 'PX', string.format('%.0f', lives))
  return answer
end
return reply
