-- refund takes back units of the entry of one instant, or of the oldest entries that count, in every limit (R10).
--
-- KEYS     the history of each limit, then the operation if there is an idempotency key (lua/once.lua).
-- ARGV[1]  packed: mode B, number of limits B, instant I7 (above 2^53: the server's clock); granted I7 (the instant of
--          the entry; above 2^53: the oldest entries that count, of each limit its own); n I7 units;
--          then for each limit max I7, window I6, gap I6, cell I6, take I7 (the most units to take of it), and of a
--          Bucket and a Period as in kinds.lua.
-- ARGV[2]  with an operation, packed: its lifetime I7.
-- reply    packed: the most units taken in one limit i8, the instant I7 of the decision, and 1 B if they are the answer
--          of a known operation; or 4 B, instant I7, as in kinds.lua.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
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
-- strike takes units off the entry at s[p], in a run that begins at s[b]. An entry without units is removed if an
-- entry before it in the run can take over its time.
local strike = function(s, b, p, units)
  local from, after, e = p, p, nil
  local delta, n
  do
    local a, b, c, d, e = byte(s, after, after + 4)
    if a < 0x80 then delta, after = a, after + 1
    elseif a < 0xC0 then delta, after = (a - 0x80) * 0x100 + b, after + 2
    elseif a < 0xE0 then delta, after = (a - 0xC0) * 0x10000 + b * 0x100 + c, after + 3
    elseif a < 0xF0 then delta, after = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, after + 4
    elseif a < 0xF8 then delta, after = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, after + 5
    elseif a < 0xFC then delta, after = (a - 0xF8) * 0x10000000000 + decode('>I5', s, after + 1), after + 6
    else delta, after = decode('>I7', s, after + 1) end
  end
  n = delta % 2
  delta = (delta - n) / 2
  if n == 1 then
    do
      local a, b, c, d, e = byte(s, after, after + 4)
      if a < 0x80 then n, after = a, after + 1
      elseif a < 0xC0 then n, after = (a - 0x80) * 0x100 + b, after + 2
      elseif a < 0xE0 then n, after = (a - 0xC0) * 0x10000 + b * 0x100 + c, after + 3
      elseif a < 0xF0 then n, after = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, after + 4
      elseif a < 0xF8 then n, after = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, after + 5
      elseif a < 0xFC then n, after = (a - 0xF8) * 0x10000000000 + decode('>I5', s, after + 1), after + 6
      else n, after = decode('>I7', s, after + 1) end
    end
  else
    n = 1
  end
  local gap, left = delta, n - units
  if left == 0 and p > b then
    local at = b
    while at < p do
      from = at
      local delta, n
      do
        local a, b, c, d, e = byte(s, at, at + 4)
        if a < 0x80 then delta, at = a, at + 1
        elseif a < 0xC0 then delta, at = (a - 0x80) * 0x100 + b, at + 2
        elseif a < 0xE0 then delta, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
        elseif a < 0xF0 then delta, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
        elseif a < 0xF8 then delta, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
        elseif a < 0xFC then delta, at = (a - 0xF8) * 0x10000000000 + decode('>I5', s, at + 1), at + 6
        else delta, at = decode('>I7', s, at + 1) end
      end
      n = delta % 2
      delta = (delta - n) / 2
      if n == 1 then
        do
          local a, b, c, d, e = byte(s, at, at + 4)
          if a < 0x80 then n, at = a, at + 1
          elseif a < 0xC0 then n, at = (a - 0x80) * 0x100 + b, at + 2
          elseif a < 0xE0 then n, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
          elseif a < 0xF0 then n, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
          elseif a < 0xF8 then n, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
          elseif a < 0xFC then n, at = (a - 0xF8) * 0x10000000000 + decode('>I5', s, at + 1), at + 6
          else n, at = decode('>I7', s, at + 1) end
        end
      else
        n = 1
      end
      left, gap = n, gap + (at == p and delta or 0)
    end
  end
  do
    local v = (gap) * 2
    if left == 1 then
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
      v = left
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
  return string.sub(s, 1, from - 1) .. e .. string.sub(s, after)
end
-- thin takes up to want units off the entries from s[p] to before s[q], in a run that begins at s[start], oldest first. The
-- entry before them, or one without units, takes over the time of those that lose all. It returns the new text, the
-- units that it took and the time of those entries.
local thin = function(s, start, p, q, want)
  local from, at, took, time, e, rest = p, p, 0, 0, '', ''
  local before, held = 0, 0 -- the entry before them: its time and its units.
  while start < p do
    from = start
    local delta, n
    do
      local a, b, c, d, e = byte(s, start, start + 4)
      if a < 0x80 then delta, start = a, start + 1
      elseif a < 0xC0 then delta, start = (a - 0x80) * 0x100 + b, start + 2
      elseif a < 0xE0 then delta, start = (a - 0xC0) * 0x10000 + b * 0x100 + c, start + 3
      elseif a < 0xF0 then delta, start = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, start + 4
      elseif a < 0xF8 then delta, start = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, start + 5
      elseif a < 0xFC then delta, start = (a - 0xF8) * 0x10000000000 + decode('>I5', s, start + 1), start + 6
      else delta, start = decode('>I7', s, start + 1) end
    end
    n = delta % 2
    delta = (delta - n) / 2
    if n == 1 then
      do
        local a, b, c, d, e = byte(s, start, start + 4)
        if a < 0x80 then n, start = a, start + 1
        elseif a < 0xC0 then n, start = (a - 0x80) * 0x100 + b, start + 2
        elseif a < 0xE0 then n, start = (a - 0xC0) * 0x10000 + b * 0x100 + c, start + 3
        elseif a < 0xF0 then n, start = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, start + 4
        elseif a < 0xF8 then n, start = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, start + 5
        elseif a < 0xFC then n, start = (a - 0xF8) * 0x10000000000 + decode('>I5', s, start + 1), start + 6
        else n, start = decode('>I7', s, start + 1) end
      end
    else
      n = 1
    end
    before, held = delta, n
  end
  while at < q and took < want do
    local delta, n
    do
      local a, b, c, d, e = byte(s, at, at + 4)
      if a < 0x80 then delta, at = a, at + 1
      elseif a < 0xC0 then delta, at = (a - 0x80) * 0x100 + b, at + 2
      elseif a < 0xE0 then delta, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
      elseif a < 0xF0 then delta, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
      elseif a < 0xF8 then delta, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
      elseif a < 0xFC then delta, at = (a - 0xF8) * 0x10000000000 + decode('>I5', s, at + 1), at + 6
      else delta, at = decode('>I7', s, at + 1) end
    end
    n = delta % 2
    delta = (delta - n) / 2
    if n == 1 then
      do
        local a, b, c, d, e = byte(s, at, at + 4)
        if a < 0x80 then n, at = a, at + 1
        elseif a < 0xC0 then n, at = (a - 0x80) * 0x100 + b, at + 2
        elseif a < 0xE0 then n, at = (a - 0xC0) * 0x10000 + b * 0x100 + c, at + 3
        elseif a < 0xF0 then n, at = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, at + 4
        elseif a < 0xF8 then n, at = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, at + 5
        elseif a < 0xFC then n, at = (a - 0xF8) * 0x10000000000 + decode('>I5', s, at + 1), at + 6
        else n, at = decode('>I7', s, at + 1) end
      end
    else
      n = 1
    end
    if took + n > want then
      local left = took + n - want
      do
        local v = (delta) * 2
        if left == 1 then
          if v < 0x80 then rest = encode('B', v)
          elseif v < 0x4000 then rest = encode('>I2', v + 0x8000)
          elseif v < 0x200000 then rest = encode('>I3', v + 0xC00000)
          elseif v < 0x10000000 then rest = encode('>I4', v + 0xE0000000)
          elseif v < 0x800000000 then rest = encode('>I5', v + 0xF000000000)
          elseif v < 0x40000000000 then rest = encode('>I6', v + 0xF80000000000)
          else rest = encode('>BI7', 0xFC, v) end
        else
          local units
          v = v + 1
          if v < 0x80 then rest = encode('B', v)
          elseif v < 0x4000 then rest = encode('>I2', v + 0x8000)
          elseif v < 0x200000 then rest = encode('>I3', v + 0xC00000)
          elseif v < 0x10000000 then rest = encode('>I4', v + 0xE0000000)
          elseif v < 0x800000000 then rest = encode('>I5', v + 0xF000000000)
          elseif v < 0x40000000000 then rest = encode('>I6', v + 0xF80000000000)
          else rest = encode('>BI7', 0xFC, v) end
          v = left
          if v < 0x80 then units = encode('B', v)
          elseif v < 0x4000 then units = encode('>I2', v + 0x8000)
          elseif v < 0x200000 then units = encode('>I3', v + 0xC00000)
          elseif v < 0x10000000 then units = encode('>I4', v + 0xE0000000)
          elseif v < 0x800000000 then units = encode('>I5', v + 0xF000000000)
          elseif v < 0x40000000000 then units = encode('>I6', v + 0xF80000000000)
          else units = encode('>BI7', 0xFC, v) end
          rest = rest .. units
        end
      end
      took = want
    else
      took, time = took + n, time + delta
    end
  end
  if at > q then error('weir:state an entry is cut off', 0) end
  if from < p or time > 0 then do
      local v = (before + time) * 2
      if held == 1 then
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
        v = held
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
  return string.sub(s, 1, from - 1) .. e .. rest .. string.sub(s, at), took, time
end
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
local virtual, limits = true, {}
local mode, count, raw, granted, n, pos = decode('>BBI7I7I7', ARGV[1])
for i = 1, count do
  local H = { key = KEYS[i], s = false, p = false, q = false, z = false, o = false, late = false, from = false, to = false, low = false, top = false, wide = false, last = false, newest = false, first = false, units = false, total = false, lives = false, cut = false, used = false, ls = false, lp = false, lq = false, lc = false, lu = false, own = false, edge = false, push = false, redated = false, room = false, closed = false, wait = false, reset = false, next = false, gapwait = false, debt = false, frac = false, since = false, ahead = false, unit = false, part = false, per = false, most = false, wasunit = false, waspart = false, wasper = false, edge1 = false, edge2 = false, edge3 = false, edge4 = false, begin = false, ends = false }
  H.max, H.window, H.gap, H.cell, H.n, pos = decode('>I7I6I6I6I7', ARGV[1], pos)
  local arg, at = ARGV[1], pos
  -- the further numbers of a Bucket or a Period.
  if H.cell == 281474976710652 then H.unit, H.part, H.per, H.most, at = decode('>I6I7I7I7', arg, at)
  elseif H.cell == 281474976710653 then H.edge1, H.edge2, H.edge3, H.edge4, at = decode('>I7I7I7I7', arg, at) end
  limits[i], pos = H, at
end
-- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
if raw > 9007199254740991 then
  virtual = false
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
granted = math.min(granted, 9007199254740992) -- so that it is exact.
local operation = KEYS[count + 1]
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
  local took, _, entry, _, decided = decode('>I7i8I7i8I7', known, 19)
  if was ~= 9 or units ~= n or entry ~= granted then error('weir:id ' .. string.format('%.0f %.0f', was, units), 0) end
  return encode('>i8I7B', took, decided, 1)
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
local most = 0
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
  if H.debt then
    -- gives back to the bucket, unless the grant has flowed in again (R16).
    H.took = 0
    local counts = granted > 9007199254740991 or H.since <= granted and granted <= H.last
    if counts then H.took = math.min(H.n, H.used) end
    if H.took > 0 and H.took == H.used then
      H.debt, H.frac, H.since = H.ahead, 0, now + H.ahead
    elseif H.took > 0 then
      local back, part = cost(H.took, H.unit, H.part, H.per)
      H.debt, H.frac = H.debt - back, H.frac - part
      if H.frac < 0 then H.debt, H.frac = H.debt - 1, H.frac + H.per end
    end
  elseif granted > 9007199254740991 then
    H.took = math.min(H.n, H.used)
    H.all = H.took == H.used
    H.es, H.ep, H.eq, H.ec, H.eu = H.ls, H.lp, H.lq, H.lc, H.lu
  else
    local mark
    if H.cell == 281474976710654 and H.edge <= granted and granted - H.edge < H.window then
      mark = H.edge -- R3
    elseif H.cell == 281474976710653 then
      mark = H.begin <= granted and granted < H.ends and H.edge or -1
    else
      mark = granted
      if H.cell > 0 and H.cell < 281474976710652 then
        mark = granted - granted % H.cell + H.cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif H.cell == 281474976710655 then mark = granted - granted % H.window
      elseif H.ends then mark = H.begin -- AT is now.
      end
    end
    H.took = 0
    if mark == H.edge then
      H.took = math.min(H.n, H.own)
    elseif mark > H.cut and mark < H.edge and H.lu < H.edge then
      if not seek then parse, seek, retreat = lengthy() end
      local u, held, _
      H.es, H.ep, _, H.ec, u, _, held = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, mark - 1, 0)
      if u == mark then H.took = math.min(H.n, held) end
    end
  end
  if math.min(H.took, n) > most then most = math.min(H.took, n) end
end
if most == 0 then return encode('>i8I7', 0, now) end
-- Every call that can fail runs before the first write. All entries but that of the instant stay, also those that
-- no longer count: a later decision may be at an earlier instant (R2, R10).
for index = 1, count do local H = limits[index]
  if not H.debt then
    H.ls, H.lp, H.lq, H.lc, H.lu, H.own, H.used = H.s, H.p, H.q, H.from, H.first, H.units, H.total - H.took
    H.wide = H.wide or H.took > 0 and H.ep
    if H.took == 0 then
      -- only the correction of the clock is stored (R2).
    elseif H.all then -- every entry that counts is removed.
      -- the newest entry is removed: the last one with units becomes the newest.
      if H.used == 0 then
        H.newest, H.edge = 0, 0
        -- no older entry counts.
        H.ls, H.lp, H.lq, H.lc, H.lu = '', 1, 1, H.to + 1, H.edge
      else
        if not seek then parse, seek, retreat = lengthy() end
        local last, late
        last = nil
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
            if n >= H.used then last = H.lu end
          end
          if not last then
            if not seek then parse, seek, retreat = lengthy() end
            local _, u
            _, _, _, _, u, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, -1, H.used)
            if u < H.edge then last = u end
          end
        end
        if not last then
          if H.push and gone + H.push >= H.used then last = H.edge else last = H.newest end
        end
        H.ls, H.lp, H.lq, H.lu, H.to, H.z, H.o, late, H.newest, H.own =
        retreat(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, H.to, H.z, H.o, last)
        H.late, H.edge = late, H.newest
      end
    elseif H.eu then
      -- the older entries, run after run: the rest comes from the newest.
      local s, p, q, c, u, left, blocks = H.es, H.ep, H.eq, H.ec, H.eu, H.took, {}
      H.fields = {}
      if not seek then parse, seek, retreat = lengthy() end
      while left > 0 and c <= H.to + 1 do
        local text, took, time = s, 0, 0
        if p >= q then
          -- nothing of this run counts.
        elseif c == H.from then
          text, took, time = thin(s, H.p, p, q, left)
          H.ls, H.lq = text, H.q + #text - #s
        elseif c == H.to + 1 then
          text, took = thin(s, H.o, p, q, left)
          H.z, H.late = text, H.late - took
        else
          local behind, units, start = parse(s)
          if p == start and units > 0 and units <= left then -- without a look at its entries.
            local e
            do
              local v = (behind - u) * 2
              if 0 == 1 then
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
                v = 0
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
            text, took, time = e, units, behind - u
          else
            text, took, time = thin(s, start, p, q, left)
            text = sub(text, start)
          end
          if units > 0 then units = units - took end
          local size
          if units < 0x80 then size = encode('B', units)
          elseif units < 0x4000 then size = encode('>I2', units + 0x8000)
          elseif units < 0x200000 then size = encode('>I3', units + 0xC00000)
          elseif units < 0x10000000 then size = encode('>I4', units + 0xE0000000)
          elseif units < 0x800000000 then size = encode('>I5', units + 0xF000000000)
          elseif units < 0x40000000000 then size = encode('>I6', units + 0xF80000000000)
          else size = encode('>BI7', 0xFC, units) end
          H.fields[encode('>I6', c - 1)] = encode('>I7BBB', behind, #text, 1, #text) .. size .. text
          local name = 'b' .. encode('>I6', math.floor((c - 1) / 32))
          blocks[name] = (blocks[name] or 0) + took
        end
        left, u = left - took, u + time
        if c < H.to then
          s, c = call('HGET', H.key, encode('>I6', c)), c + 1
          local _
          _, _, p = parse(s)
          q = #s + 1
        else
          s, p, q, c = H.z, H.o, #H.z + 1, c + 1
        end
      end
      H.own = H.own - left
      for name, took in pairs(blocks) do
        local block = call('HGET', H.key, name)
        if block then
          local after, all = decode('>I7I7', block)
          H.fields[name] = encode('>I7I7', after, all - took)
        end
      end
    elseif not H.ep then
      H.own = H.own - H.took
      if H.own == 0 then
        -- the newest entry is removed: the last one with units becomes the newest.
        if H.used == 0 then
          H.newest, H.edge = 0, 0
          -- no older entry counts.
          H.ls, H.lp, H.lq, H.lc, H.lu = '', 1, 1, H.to + 1, H.edge
        else
          if not seek then parse, seek, retreat = lengthy() end
          local last, late
          last = nil
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
              if n >= H.used then last = H.lu end
            end
            if not last then
              if not seek then parse, seek, retreat = lengthy() end
              local _, u
              _, _, _, _, u, gone = seek(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, 0, H.to, H.z, H.o, -1, H.used)
              if u < H.edge then last = u end
            end
          end
          if not last then
            if H.push and gone + H.push >= H.used then last = H.edge else last = H.newest end
          end
          H.ls, H.lp, H.lq, H.lu, H.to, H.z, H.o, late, H.newest, H.own =
          retreat(H.key, H.ls, H.lp, H.lq, H.lc, H.lu, H.to, H.z, H.o, last)
          H.late, H.edge = late, H.newest
        end
      end
    elseif H.ec == H.from then
      H.ls = strike(H.s, H.p, H.ep, H.took)
      H.lq = H.q + #H.ls - #H.s
    elseif H.ec == H.to + 1 then
      H.z, H.late = strike(H.z, H.o, H.ep, H.took), H.late - H.took
    else
      -- the entry is in a chunk; the head of the chunk and its block contain its units, too.
      local behind, units, start = parse(H.es)
      local text, size = strike(H.es, start, H.ep, H.took), ''
      if units > 0 then units = units - H.took end
      if units < 0x80 then size = encode('B', units)
      elseif units < 0x4000 then size = encode('>I2', units + 0x8000)
      elseif units < 0x200000 then size = encode('>I3', units + 0xC00000)
      elseif units < 0x10000000 then size = encode('>I4', units + 0xE0000000)
      elseif units < 0x800000000 then size = encode('>I5', units + 0xF000000000)
      elseif units < 0x40000000000 then size = encode('>I6', units + 0xF80000000000)
      else size = encode('>BI7', 0xFC, units) end
      text = string.sub(text, start)
      H.name, H.chunk = encode('>I6', H.ec - 1), encode('>I7BBB', behind, #text, 1, #text) .. size .. text
      H.bname = 'b' .. encode('>I6', math.floor((H.ec - 1) / 32))
      H.block = call('HGET', H.key, H.bname)
      if H.block then
        local after, all = decode('>I7I7', H.block)
        H.block = encode('>I7I7', after, all - H.took)
      end
    end
  end
end
for index = 1, count do local H = limits[index]
  if H.debt then
    if H.took > 0 or H.redated then
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
  elseif H.took > 0 or H.redated then
    if H.chunk then call('HSET', H.key, H.name, H.chunk) end
    if H.block then call('HSET', H.key, H.bname, H.block) end
    for name, text in pairs(H.fields or {}) do call('HSET', H.key, name, text) end
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
  end
end
if operation then -- stored with the histories, or not at all.
  local ends = now + decode('>I7', ARGV[2])
  local lives = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0) -- R13
  call('SET', operation, encode('>BBI7I7', 1, 9, n, ends) .. encode('>BBI7i8I7i8I7I7', 0, 0, most, 0, granted, 0, now, 0),
  'PX', string.format('%.0f', lives))
end
return encode('>i8I7', most, now)
