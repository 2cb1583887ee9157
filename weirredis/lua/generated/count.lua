-- count returns the units of the last microseconds (R11). It writes nothing.
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: instant I7 (above 2^53: the server's clock), span I6, window I6, cell I6 (as in one.lua);
--          of a Period its edges, as in kinds.lua.
-- reply    packed: units i8; or 4 B, instant I7, as in kinds.lua.
-- Times are whole microseconds.
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
local h1_s, h1_p, h1_q, h1_z, h1_o, h1_late, h1_from, h1_to, h1_low, h1_top, h1_wide, h1_last, h1_newest, h1_first, h1_units, h1_total, h1_lives, h1_cut, h1_used, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, h1_own, h1_edge, h1_push, h1_redated, h1_room, h1_closed, h1_wait, h1_reset, h1_next, h1_gapwait, h1_debt, h1_frac, h1_since, h1_ahead, h1_unit, h1_part, h1_per, h1_most, h1_wasunit, h1_waspart, h1_wasper, h1_edge1, h1_edge2, h1_edge3, h1_edge4, h1_begin, h1_ends
local h1_key, virtual = KEYS[1], true
local arg = ARGV[1]
local raw, span, h1_window, h1_cell, at = decode('>I7I6I6I6', arg)
-- the further numbers of a Bucket or a Period.
if h1_cell == 281474976710652 then h1_unit, h1_part, h1_per, h1_most, at = decode('>I6I7I7I7', arg, at)
elseif h1_cell == 281474976710653 then h1_edge1, h1_edge2, h1_edge3, h1_edge4, at = decode('>I7I7I7I7', arg, at) end
-- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
if raw > 9007199254740991 then
  virtual = false
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
h1_s = call('HGET', h1_key, 'h')
h1_low, h1_top, h1_from, h1_to, h1_late, h1_wide = 0, 0, 0, 0, 0, false
h1_debt = false
if not h1_s then
  h1_s, h1_p, h1_q, h1_o = '', 1, 1, 1
  h1_last, h1_newest, h1_first, h1_units, h1_total, h1_lives = -9007199254740992, 0, 0, 0, 0, 0
  if h1_cell == 281474976710652 then h1_debt, h1_frac, h1_since, h1_wasunit, h1_waspart, h1_wasper = 0, 0, 0, h1_unit, h1_part, h1_per end
elseif h1_cell == 281474976710652 then
  local form, _ = byte(h1_s), nil
  if form == 8 and #h1_s == 54 then
    _, h1_last, h1_debt, h1_frac, h1_since, h1_lives, h1_wasunit, h1_waspart, h1_wasper = decode('>BI7I7I7I7I5I6I7I7', h1_s)
  elseif form == 9 and #h1_s == 33 then
    _, h1_last, h1_debt, h1_since, h1_lives, h1_wasunit = decode('>BI7I7I7I5I6', h1_s)
    h1_frac, h1_waspart, h1_wasper = 0, 0, 1
  elseif form and form ~= 8 and form ~= 9 then
    error('weir:state version ' .. string.format('%.0f', form), 0)
  else
    error('weir:state the header is cut off', 0)
  end
else
  local form, size, behind, _ = byte(h1_s), #h1_s, 0
  h1_wide = form == 2 or form == 4
  if form == 5 and size >= 26 then
    _, h1_last, h1_first, h1_lives, h1_units, h1_total, h1_q, h1_p = decode('>BI7I7I5I2I3B', h1_s)
    h1_newest = h1_last
  elseif form == 2 and size >= 42 then
    _, h1_last, h1_newest, h1_first, h1_lives, h1_units, h1_total, h1_q, h1_p = decode('>BI7I7I7I5I7I7B', h1_s)
  elseif form == 6 and size >= 40 then
    _, h1_last, h1_first, h1_lives, h1_units, h1_total, h1_q, behind, h1_late, h1_from, h1_to, h1_p = decode('>BI7I7I5I2I4BBI4I6I2', h1_s)
    h1_newest, h1_to, h1_low = h1_last, h1_from + h1_to, h1_from
    h1_top = h1_to
  elseif form == 4 and size >= 68 then
    _, h1_last, h1_newest, h1_first, h1_lives, h1_units, h1_total, h1_low, h1_from, h1_to, h1_top, h1_late, h1_q, behind, h1_p =
    decode('>BI7I7I7I5I7I7I6I4I4I4I7BB', h1_s)
    h1_from, h1_to, h1_top = h1_low + h1_from, h1_low + h1_to, h1_low + h1_top
  elseif form and form ~= 2 and (form < 4 or form > 6) then
    error('weir:state version ' .. string.format('%.0f', form), 0)
  else
    error('weir:state the header is cut off', 0)
  end
  h1_q = h1_p + h1_q
  h1_o = h1_q
  if size ~= h1_o + behind - 1 then error('weir:state the header is cut off', 0) end
end
h1_z = h1_s
local now, corrected = raw, false
-- a clock less than a second behind the history moves forward to it (R2).
if h1_last > raw then
  if h1_last - raw >= 1000000 then corrected = true
  elseif h1_last > now then now = h1_last end
end
local cut = now - span
-- the window of now; the script never decides outside of the windows around the caller's time (R3).
h1_ends = false
if h1_cell == 281474976710653 then
  if now < h1_edge1 or now >= h1_edge4 then return encode('>BI7', 4, now) end
  h1_begin, h1_ends = h1_edge2, h1_edge3
  if now < h1_edge2 then h1_begin, h1_ends = h1_edge1, h1_edge2 elseif now >= h1_edge3 then h1_begin, h1_ends = h1_edge3, h1_edge4 end
  h1_cut = h1_begin - 1
end
if corrected then
  -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
  h1_last, h1_redated = now, true
  local mark
  mark = now
  if h1_cell > 0 and h1_cell < 281474976710652 then
    mark = now - now % h1_cell + h1_cell
    if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
  elseif h1_cell == 281474976710655 then mark = now - now % h1_window
  elseif h1_ends then mark = h1_begin -- AT is now.
  end
  if h1_newest > mark then
    if not seek then parse, seek, retreat = lengthy() end
    local all, kept = h1_total
    h1_s, h1_p, h1_q, h1_first, h1_to, h1_z, h1_o, h1_late, h1_newest, h1_units, kept =
    retreat(h1_key, h1_s, h1_p, h1_q, h1_from, h1_first, h1_to, h1_z, h1_o, mark - 1)
    if h1_newest < 0 then
      h1_first = mark
    else
      local e
      do
        local v = (mark - h1_newest) * 2
        if h1_units == 1 then
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
          v = h1_units
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
      h1_z, h1_o, h1_late = string.sub(h1_z, h1_o) .. e, 1, h1_late + h1_units
    end
    h1_newest, h1_units = mark, math.min(all - kept, 2251799813685247)
    h1_total = kept + h1_units
  end
end
if h1_ends then cut = h1_begin - 1 end
if h1_newest <= cut then return encode('>i8', 0) end
if h1_first > cut then return encode('>i8', h1_total) end
if not seek then parse, seek, retreat = lengthy() end
local _, _, _, _, _, gone = seek(h1_key, h1_s, h1_p, h1_q, h1_from, h1_first, 0, h1_to, h1_z, h1_o, cut, 0)
return encode('>i8', h1_total - gone)
