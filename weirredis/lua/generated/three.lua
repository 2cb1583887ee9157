-- many decides several requests under several limits each, in their order, at one reading of the clock. The scripts
-- two and three are the same for two and three limits, with the state of the histories in local variables. The script
-- kinds is the same for limits of all kinds.
--
-- KEYS     the histories, in the order of the requests and their limits.
-- ARGV[i]  packed: kind B, times B, n I7, instant I7 as in one.lua, number of limits B, states B (1 = return them);
--          then for each limit max I7, window I6, gap I6, cell I6, cost I7 (0 = n; above 2^53: none). In kinds
--          follow, if cell is the marker of a Bucket (max is its Burst): micros I6, rest I7, per I7, most I7
--          (engine.Refill); if it is the marker of a Period: the four edges I7 of three of its windows, that of the
--          caller's time in the middle.
-- reply    for each request: the short or long reply of one.lua, or an error: 1 B, length I2, text; or, in kinds, 4 B,
--          instant I7: nothing is decided, because no window contains the instant. States follow as:
--          remaining i8, wait i8, next i8 (until the oldest entry leaves), gap i8 (until it has passed), reset i8 of
--          each limit.
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
local clock
-- failed returns the reply for an error of one decision, which wrote nothing.
local failed = function(problem)
  if type(problem) == 'table' then problem = problem.err end
  problem = string.sub(tostring(problem), 1, 1000)
  return encode('>BI2', 1, #problem) .. problem
end
local decision = function(arg, keys)
  local virtual, widest = true, 0
  local kind, times, n, raw, count, states, at = decode('>BBI7I7BB', arg)
  states = states == 1
  -- the limits of the request, and room for the state of their histories.
  local h1_key, h1_max, h1_window, h1_gap, h1_cell, h1_cost, h1_n
  local h1_s, h1_p, h1_q, h1_z, h1_o, h1_late, h1_from, h1_to, h1_low, h1_top, h1_wide, h1_last, h1_newest, h1_first, h1_units, h1_total, h1_lives, h1_cut, h1_used, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, h1_own, h1_edge, h1_push, h1_redated, h1_room, h1_closed, h1_wait, h1_reset, h1_next, h1_gapwait
  local h2_key, h2_max, h2_window, h2_gap, h2_cell, h2_cost, h2_n
  local h2_s, h2_p, h2_q, h2_z, h2_o, h2_late, h2_from, h2_to, h2_low, h2_top, h2_wide, h2_last, h2_newest, h2_first, h2_units, h2_total, h2_lives, h2_cut, h2_used, h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, h2_own, h2_edge, h2_push, h2_redated, h2_room, h2_closed, h2_wait, h2_reset, h2_next, h2_gapwait
  local h3_key, h3_max, h3_window, h3_gap, h3_cell, h3_cost, h3_n
  local h3_s, h3_p, h3_q, h3_z, h3_o, h3_late, h3_from, h3_to, h3_low, h3_top, h3_wide, h3_last, h3_newest, h3_first, h3_units, h3_total, h3_lives, h3_cut, h3_used, h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, h3_own, h3_edge, h3_push, h3_redated, h3_room, h3_closed, h3_wait, h3_reset, h3_next, h3_gapwait
  do
    h1_key = KEYS[keys + 1]
    h1_max, h1_window, h1_gap, h1_cell, h1_cost, at = decode('>I7I6I6I6I7', arg, at)
    h1_n = h1_cost > 0 and n > 0 and h1_cost or n -- R7
    if h1_cost > 9007199254740991 then h1_n = 0 end
    if h1_window > widest then widest = h1_window end
  end do
    h2_key = KEYS[keys + 2]
    h2_max, h2_window, h2_gap, h2_cell, h2_cost, at = decode('>I7I6I6I6I7', arg, at)
    h2_n = h2_cost > 0 and n > 0 and h2_cost or n -- R7
    if h2_cost > 9007199254740991 then h2_n = 0 end
    if h2_window > widest then widest = h2_window end
  end do
    h3_key = KEYS[keys + 3]
    h3_max, h3_window, h3_gap, h3_cell, h3_cost, at = decode('>I7I6I6I6I7', arg, at)
    h3_n = h3_cost > 0 and n > 0 and h3_cost or n -- R7
    if h3_cost > 9007199254740991 then h3_n = 0 end
    if h3_window > widest then widest = h3_window end
  end
  -- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
  if raw > 9007199254740991 then
    virtual = false
    if not clock then
      local time = call('TIME')
      clock = time[1] * 1000000 + time[2]
    end
    raw = clock
  end
  local now, corrected = raw, false
  do
    h1_s = call('HGET', h1_key, 'h')
    h1_low, h1_top, h1_from, h1_to, h1_late, h1_wide = 0, 0, 0, 0, 0, false
    if not h1_s then
      h1_s, h1_p, h1_q, h1_o = '', 1, 1, 1
      h1_last, h1_newest, h1_first, h1_units, h1_total, h1_lives = -9007199254740992, 0, 0, 0, 0, 0
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
    -- a clock less than a second behind the history moves forward to it (R2).
    if h1_last > raw then
      if h1_last - raw >= 1000000 then corrected = true
      elseif h1_last > now then now = h1_last end
    end
  end do
    h2_s = call('HGET', h2_key, 'h')
    h2_low, h2_top, h2_from, h2_to, h2_late, h2_wide = 0, 0, 0, 0, 0, false
    if not h2_s then
      h2_s, h2_p, h2_q, h2_o = '', 1, 1, 1
      h2_last, h2_newest, h2_first, h2_units, h2_total, h2_lives = -9007199254740992, 0, 0, 0, 0, 0
    else
      local form, size, behind, _ = byte(h2_s), #h2_s, 0
      h2_wide = form == 2 or form == 4
      if form == 5 and size >= 26 then
        _, h2_last, h2_first, h2_lives, h2_units, h2_total, h2_q, h2_p = decode('>BI7I7I5I2I3B', h2_s)
        h2_newest = h2_last
      elseif form == 2 and size >= 42 then
        _, h2_last, h2_newest, h2_first, h2_lives, h2_units, h2_total, h2_q, h2_p = decode('>BI7I7I7I5I7I7B', h2_s)
      elseif form == 6 and size >= 40 then
        _, h2_last, h2_first, h2_lives, h2_units, h2_total, h2_q, behind, h2_late, h2_from, h2_to, h2_p = decode('>BI7I7I5I2I4BBI4I6I2', h2_s)
        h2_newest, h2_to, h2_low = h2_last, h2_from + h2_to, h2_from
        h2_top = h2_to
      elseif form == 4 and size >= 68 then
        _, h2_last, h2_newest, h2_first, h2_lives, h2_units, h2_total, h2_low, h2_from, h2_to, h2_top, h2_late, h2_q, behind, h2_p =
        decode('>BI7I7I7I5I7I7I6I4I4I4I7BB', h2_s)
        h2_from, h2_to, h2_top = h2_low + h2_from, h2_low + h2_to, h2_low + h2_top
      elseif form and form ~= 2 and (form < 4 or form > 6) then
        error('weir:state version ' .. string.format('%.0f', form), 0)
      else
        error('weir:state the header is cut off', 0)
      end
      h2_q = h2_p + h2_q
      h2_o = h2_q
      if size ~= h2_o + behind - 1 then error('weir:state the header is cut off', 0) end
    end
    h2_z = h2_s
    -- a clock less than a second behind the history moves forward to it (R2).
    if h2_last > raw then
      if h2_last - raw >= 1000000 then corrected = true
      elseif h2_last > now then now = h2_last end
    end
  end do
    h3_s = call('HGET', h3_key, 'h')
    h3_low, h3_top, h3_from, h3_to, h3_late, h3_wide = 0, 0, 0, 0, 0, false
    if not h3_s then
      h3_s, h3_p, h3_q, h3_o = '', 1, 1, 1
      h3_last, h3_newest, h3_first, h3_units, h3_total, h3_lives = -9007199254740992, 0, 0, 0, 0, 0
    else
      local form, size, behind, _ = byte(h3_s), #h3_s, 0
      h3_wide = form == 2 or form == 4
      if form == 5 and size >= 26 then
        _, h3_last, h3_first, h3_lives, h3_units, h3_total, h3_q, h3_p = decode('>BI7I7I5I2I3B', h3_s)
        h3_newest = h3_last
      elseif form == 2 and size >= 42 then
        _, h3_last, h3_newest, h3_first, h3_lives, h3_units, h3_total, h3_q, h3_p = decode('>BI7I7I7I5I7I7B', h3_s)
      elseif form == 6 and size >= 40 then
        _, h3_last, h3_first, h3_lives, h3_units, h3_total, h3_q, behind, h3_late, h3_from, h3_to, h3_p = decode('>BI7I7I5I2I4BBI4I6I2', h3_s)
        h3_newest, h3_to, h3_low = h3_last, h3_from + h3_to, h3_from
        h3_top = h3_to
      elseif form == 4 and size >= 68 then
        _, h3_last, h3_newest, h3_first, h3_lives, h3_units, h3_total, h3_low, h3_from, h3_to, h3_top, h3_late, h3_q, behind, h3_p =
        decode('>BI7I7I7I5I7I7I6I4I4I4I7BB', h3_s)
        h3_from, h3_to, h3_top = h3_low + h3_from, h3_low + h3_to, h3_low + h3_top
      elseif form and form ~= 2 and (form < 4 or form > 6) then
        error('weir:state version ' .. string.format('%.0f', form), 0)
      else
        error('weir:state the header is cut off', 0)
      end
      h3_q = h3_p + h3_q
      h3_o = h3_q
      if size ~= h3_o + behind - 1 then error('weir:state the header is cut off', 0) end
    end
    h3_z = h3_s
    -- a clock less than a second behind the history moves forward to it (R2).
    if h3_last > raw then
      if h3_last - raw >= 1000000 then corrected = true
      elseif h3_last > now then now = h3_last end
    end
  end
  do
    -- the history as seen by a decision at now.
    h1_cut, h1_push, h1_redated = now - h1_window, false, false
    if corrected and h1_last - raw >= 1000000 then
      -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
      h1_last, h1_redated = now, true
      local mark
      mark = now
      if h1_cell > 0 and h1_cell < 281474976710654 then
        mark = now - now % h1_cell + h1_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h1_cell == 281474976710655 then mark = now - now % h1_window
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
    -- the entries that count at now (R3).
    h1_edge, h1_own = h1_newest, h1_units
    h1_ls, h1_lp, h1_lq, h1_lc, h1_lu = h1_s, h1_p, h1_q, h1_from, h1_first
    if h1_newest <= h1_cut then
      h1_used, h1_own = 0, 0
      -- no older entry counts.
      h1_ls, h1_lp, h1_lq, h1_lc, h1_lu = '', 1, 1, h1_to + 1, h1_edge
    elseif h1_lu > h1_cut then
      h1_used = h1_total
    else
      local gone = 0
      repeat
        if h1_lp < h1_lq then
          local delta, n
          do
            local a, b, c, d, e = byte(h1_ls, h1_lp, h1_lp + 4)
            if a < 0x80 then delta, h1_lp = a, h1_lp + 1
            elseif a < 0xC0 then delta, h1_lp = (a - 0x80) * 0x100 + b, h1_lp + 2
            elseif a < 0xE0 then delta, h1_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h1_lp + 3
            elseif a < 0xF0 then delta, h1_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h1_lp + 4
            elseif a < 0xF8 then delta, h1_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h1_lp + 5
            elseif a < 0xFC then delta, h1_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, h1_lp + 1), h1_lp + 6
            else delta, h1_lp = decode('>I7', h1_ls, h1_lp + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h1_ls, h1_lp, h1_lp + 4)
              if a < 0x80 then n, h1_lp = a, h1_lp + 1
              elseif a < 0xC0 then n, h1_lp = (a - 0x80) * 0x100 + b, h1_lp + 2
              elseif a < 0xE0 then n, h1_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h1_lp + 3
              elseif a < 0xF0 then n, h1_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h1_lp + 4
              elseif a < 0xF8 then n, h1_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h1_lp + 5
              elseif a < 0xFC then n, h1_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, h1_lp + 1), h1_lp + 6
              else n, h1_lp = decode('>I7', h1_ls, h1_lp + 1) end
            end
          else
            n = 1
          end
          gone, h1_lu = gone + n, h1_lu + delta
        elseif h1_lc < h1_to then
          -- the next chunk; if none of its entries counts, seek skips chunks and blocks.
          local text = call('HGET', h1_key, encode('>I6', h1_lc))
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
          if behind > h1_cut then
            h1_ls, h1_lp, h1_lq, h1_lc = text, p, #text + 1, h1_lc + 1
          else
            if not seek then parse, seek, retreat = lengthy() end
            h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, gone = seek(h1_key, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, gone, h1_to, h1_z, h1_o, h1_cut, 0)
          end
        elseif h1_lc == h1_to then
          h1_ls, h1_lp, h1_lq, h1_lc = h1_z, h1_o, #h1_z + 1, h1_to + 1
        else
          error('weir:state an entry is missing', 0)
        end
      until h1_lu > h1_cut
      h1_used = h1_total - gone
    end
    h1_room = h1_max - h1_used -- R5
    h1_closed = now - h1_last < h1_gap
  end do
    -- the history as seen by a decision at now.
    h2_cut, h2_push, h2_redated = now - h2_window, false, false
    if corrected and h2_last - raw >= 1000000 then
      -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
      h2_last, h2_redated = now, true
      local mark
      mark = now
      if h2_cell > 0 and h2_cell < 281474976710654 then
        mark = now - now % h2_cell + h2_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h2_cell == 281474976710655 then mark = now - now % h2_window
      end
      if h2_newest > mark then
        if not seek then parse, seek, retreat = lengthy() end
        local all, kept = h2_total
        h2_s, h2_p, h2_q, h2_first, h2_to, h2_z, h2_o, h2_late, h2_newest, h2_units, kept =
        retreat(h2_key, h2_s, h2_p, h2_q, h2_from, h2_first, h2_to, h2_z, h2_o, mark - 1)
        if h2_newest < 0 then
          h2_first = mark
        else
          local e
          do
            local v = (mark - h2_newest) * 2
            if h2_units == 1 then
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
              v = h2_units
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
          h2_z, h2_o, h2_late = string.sub(h2_z, h2_o) .. e, 1, h2_late + h2_units
        end
        h2_newest, h2_units = mark, math.min(all - kept, 2251799813685247)
        h2_total = kept + h2_units
      end
    end
    -- the entries that count at now (R3).
    h2_edge, h2_own = h2_newest, h2_units
    h2_ls, h2_lp, h2_lq, h2_lc, h2_lu = h2_s, h2_p, h2_q, h2_from, h2_first
    if h2_newest <= h2_cut then
      h2_used, h2_own = 0, 0
      -- no older entry counts.
      h2_ls, h2_lp, h2_lq, h2_lc, h2_lu = '', 1, 1, h2_to + 1, h2_edge
    elseif h2_lu > h2_cut then
      h2_used = h2_total
    else
      local gone = 0
      repeat
        if h2_lp < h2_lq then
          local delta, n
          do
            local a, b, c, d, e = byte(h2_ls, h2_lp, h2_lp + 4)
            if a < 0x80 then delta, h2_lp = a, h2_lp + 1
            elseif a < 0xC0 then delta, h2_lp = (a - 0x80) * 0x100 + b, h2_lp + 2
            elseif a < 0xE0 then delta, h2_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h2_lp + 3
            elseif a < 0xF0 then delta, h2_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h2_lp + 4
            elseif a < 0xF8 then delta, h2_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h2_lp + 5
            elseif a < 0xFC then delta, h2_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, h2_lp + 1), h2_lp + 6
            else delta, h2_lp = decode('>I7', h2_ls, h2_lp + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h2_ls, h2_lp, h2_lp + 4)
              if a < 0x80 then n, h2_lp = a, h2_lp + 1
              elseif a < 0xC0 then n, h2_lp = (a - 0x80) * 0x100 + b, h2_lp + 2
              elseif a < 0xE0 then n, h2_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h2_lp + 3
              elseif a < 0xF0 then n, h2_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h2_lp + 4
              elseif a < 0xF8 then n, h2_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h2_lp + 5
              elseif a < 0xFC then n, h2_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, h2_lp + 1), h2_lp + 6
              else n, h2_lp = decode('>I7', h2_ls, h2_lp + 1) end
            end
          else
            n = 1
          end
          gone, h2_lu = gone + n, h2_lu + delta
        elseif h2_lc < h2_to then
          -- the next chunk; if none of its entries counts, seek skips chunks and blocks.
          local text = call('HGET', h2_key, encode('>I6', h2_lc))
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
          if behind > h2_cut then
            h2_ls, h2_lp, h2_lq, h2_lc = text, p, #text + 1, h2_lc + 1
          else
            if not seek then parse, seek, retreat = lengthy() end
            h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, gone = seek(h2_key, h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, gone, h2_to, h2_z, h2_o, h2_cut, 0)
          end
        elseif h2_lc == h2_to then
          h2_ls, h2_lp, h2_lq, h2_lc = h2_z, h2_o, #h2_z + 1, h2_to + 1
        else
          error('weir:state an entry is missing', 0)
        end
      until h2_lu > h2_cut
      h2_used = h2_total - gone
    end
    h2_room = h2_max - h2_used -- R5
    h2_closed = now - h2_last < h2_gap
  end do
    -- the history as seen by a decision at now.
    h3_cut, h3_push, h3_redated = now - h3_window, false, false
    if corrected and h3_last - raw >= 1000000 then
      -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
      h3_last, h3_redated = now, true
      local mark
      mark = now
      if h3_cell > 0 and h3_cell < 281474976710654 then
        mark = now - now % h3_cell + h3_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h3_cell == 281474976710655 then mark = now - now % h3_window
      end
      if h3_newest > mark then
        if not seek then parse, seek, retreat = lengthy() end
        local all, kept = h3_total
        h3_s, h3_p, h3_q, h3_first, h3_to, h3_z, h3_o, h3_late, h3_newest, h3_units, kept =
        retreat(h3_key, h3_s, h3_p, h3_q, h3_from, h3_first, h3_to, h3_z, h3_o, mark - 1)
        if h3_newest < 0 then
          h3_first = mark
        else
          local e
          do
            local v = (mark - h3_newest) * 2
            if h3_units == 1 then
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
              v = h3_units
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
          h3_z, h3_o, h3_late = string.sub(h3_z, h3_o) .. e, 1, h3_late + h3_units
        end
        h3_newest, h3_units = mark, math.min(all - kept, 2251799813685247)
        h3_total = kept + h3_units
      end
    end
    -- the entries that count at now (R3).
    h3_edge, h3_own = h3_newest, h3_units
    h3_ls, h3_lp, h3_lq, h3_lc, h3_lu = h3_s, h3_p, h3_q, h3_from, h3_first
    if h3_newest <= h3_cut then
      h3_used, h3_own = 0, 0
      -- no older entry counts.
      h3_ls, h3_lp, h3_lq, h3_lc, h3_lu = '', 1, 1, h3_to + 1, h3_edge
    elseif h3_lu > h3_cut then
      h3_used = h3_total
    else
      local gone = 0
      repeat
        if h3_lp < h3_lq then
          local delta, n
          do
            local a, b, c, d, e = byte(h3_ls, h3_lp, h3_lp + 4)
            if a < 0x80 then delta, h3_lp = a, h3_lp + 1
            elseif a < 0xC0 then delta, h3_lp = (a - 0x80) * 0x100 + b, h3_lp + 2
            elseif a < 0xE0 then delta, h3_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h3_lp + 3
            elseif a < 0xF0 then delta, h3_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h3_lp + 4
            elseif a < 0xF8 then delta, h3_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h3_lp + 5
            elseif a < 0xFC then delta, h3_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, h3_lp + 1), h3_lp + 6
            else delta, h3_lp = decode('>I7', h3_ls, h3_lp + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h3_ls, h3_lp, h3_lp + 4)
              if a < 0x80 then n, h3_lp = a, h3_lp + 1
              elseif a < 0xC0 then n, h3_lp = (a - 0x80) * 0x100 + b, h3_lp + 2
              elseif a < 0xE0 then n, h3_lp = (a - 0xC0) * 0x10000 + b * 0x100 + c, h3_lp + 3
              elseif a < 0xF0 then n, h3_lp = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, h3_lp + 4
              elseif a < 0xF8 then n, h3_lp = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, h3_lp + 5
              elseif a < 0xFC then n, h3_lp = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, h3_lp + 1), h3_lp + 6
              else n, h3_lp = decode('>I7', h3_ls, h3_lp + 1) end
            end
          else
            n = 1
          end
          gone, h3_lu = gone + n, h3_lu + delta
        elseif h3_lc < h3_to then
          -- the next chunk; if none of its entries counts, seek skips chunks and blocks.
          local text = call('HGET', h3_key, encode('>I6', h3_lc))
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
          if behind > h3_cut then
            h3_ls, h3_lp, h3_lq, h3_lc = text, p, #text + 1, h3_lc + 1
          else
            if not seek then parse, seek, retreat = lengthy() end
            h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, gone = seek(h3_key, h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, gone, h3_to, h3_z, h3_o, h3_cut, 0)
          end
        elseif h3_lc == h3_to then
          h3_ls, h3_lp, h3_lq, h3_lc = h3_z, h3_o, #h3_z + 1, h3_to + 1
        else
          error('weir:state an entry is missing', 0)
        end
      until h3_lu > h3_cut
      h3_used = h3_total - gone
    end
    h3_room = h3_max - h3_used -- R5
    h3_closed = now - h3_last < h3_gap
  end
  local room, open, fits = 9007199254740991, true, true
  do
    if h1_room < room then room = h1_room end
    if h1_n > h1_room then fits = false end
    if h1_closed then open = false end
  end do
    if h2_room < room then room = h2_room end
    if h2_n > h2_room then fits = false end
    if h2_closed then open = false end
  end do
    if h3_room < room then room = h3_room end
    if h3_n > h3_room then fits = false end
    if h3_closed then open = false end
  end
  -- granted: units of the decision. add: units to record, in every limit or in none (R6, R7, R10).
  local mode, granted, add, full = kind % 3, 0, 0, open and fits
  if kind >= 6 then
    do
      local units = h1_n
      if mode == 2 and units > h1_max then units = h1_max end
      if h1_used + units > 2251799813685247 then
        error('weir:overflow ' .. 1 .. ' ' .. string.format('%.0f', h1_used), 0)
      end
    end do
      local units = h2_n
      if mode == 2 and units > h2_max then units = h2_max end
      if h2_used + units > 2251799813685247 then
        error('weir:overflow ' .. 2 .. ' ' .. string.format('%.0f', h2_used), 0)
      end
    end do
      local units = h3_n
      if mode == 2 and units > h3_max then units = h3_max end
      if h3_used + units > 2251799813685247 then
        error('weir:overflow ' .. 3 .. ' ' .. string.format('%.0f', h3_used), 0)
      end
    end
    granted, add, full = n, n, true
  else
    if full then
      granted = n
      -- merged callers are decided at one instant, one after the other, until one is denied.
      if times > 1 then
        local fit = math.min(times, math.floor(room / n))
        do if h1_gap > 0 then fit = 1 end end do if h2_gap > 0 then fit = 1 end end do if h3_gap > 0 then fit = 1 end end
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
  do
    if add > 0 and h1_n > 0 then
      -- in memory: the new units replace the entries that no longer count (R4).
      local add = h1_cost > 0 and h1_cost or add
      local units = add
      -- adds units at now (R4, R7).
      local mark
      mark = now
      if h1_cell > 0 and h1_cell < 281474976710654 then
        mark = now - now % h1_cell + h1_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h1_cell == 281474976710655 then mark = now - now % h1_window
      end
      local merges = mark <= h1_newest -- a mark never runs back (R9).
      merges = merges or h1_cell == 281474976710654 and h1_own > 0 -- an open window takes all units (R3).
      if mode == 2 then
        -- CountDenied: keeps the newest entries that reach Max, and the oldest of them whole (R6). An entry counts at most
        -- Max.
        local most = merges and h1_max - h1_own or h1_max
        if units > most then units = most end
        local spare, gone = h1_used - h1_max + units, 0
        if spare >= 0 and h1_lu < h1_edge then
          if not seek then parse, seek, retreat = lengthy() end
          h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, gone = seek(h1_key, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, 0, h1_to, h1_z, h1_o, -1, spare + 1)
        end
        if not merges and h1_lu == h1_edge and gone + h1_own <= spare then gone, h1_own = gone + h1_own, 0 end
        h1_used = h1_used - gone
      end
      if merges then
        h1_own = h1_own + units
      else
        if h1_own > 0 or h1_lu < h1_edge then h1_push = h1_own else h1_lu, h1_edge = mark, mark end
        h1_newest, h1_own = mark, units
      end
      h1_used, h1_last = h1_used + units, now
      if mode == 2 and h1_max == 0 then -- a limit of 0 keeps no entry (R6).
        h1_newest, h1_edge, h1_push = 0, 0, false
        -- no older entry counts.
        h1_ls, h1_lp, h1_lq, h1_lc, h1_lu = '', 1, 1, h1_to + 1, h1_edge
      end
    end
    -- h1_wait: until n more units fit. h1_reset: until no unit counts. h1_next: until the oldest entry leaves (R8).
    h1_gapwait = now - h1_last < h1_gap and h1_gap - (now - h1_last) or 0
    h1_wait = h1_gapwait
    local need, at = h1_used - h1_max + h1_n, nil
    if h1_n > h1_max then
      h1_wait = -1
    elseif need > 0 then
      at = nil
      local gone = 0
      if h1_lu < h1_edge then
        if h1_lp < h1_lq then -- mostly the oldest entry is enough.
          local behind = h1_lp
          local delta, n
          do
            local a, b, c, d, e = byte(h1_ls, behind, behind + 4)
            if a < 0x80 then delta, behind = a, behind + 1
            elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
            elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
            elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
            elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
            elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, behind + 1), behind + 6
            else delta, behind = decode('>I7', h1_ls, behind + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h1_ls, behind, behind + 4)
              if a < 0x80 then n, behind = a, behind + 1
              elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
              elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
              elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
              elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
              elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, behind + 1), behind + 6
              else n, behind = decode('>I7', h1_ls, behind + 1) end
            end
          else
            n = 1
          end
          if n >= need then at = h1_lu end
        end
        if not at then
          if not seek then parse, seek, retreat = lengthy() end
          local _, u
          _, _, _, _, u, gone = seek(h1_key, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, 0, h1_to, h1_z, h1_o, -1, need)
          if u < h1_edge then at = u end
        end
      end
      if not at then
        if h1_push and gone + h1_push >= need then at = h1_edge else at = h1_newest end
      end
      if at - now + h1_window > h1_wait then h1_wait = at - now + h1_window end
    end
    h1_reset, h1_next = 0, 0
    if h1_used > 0 then
      h1_reset = h1_newest - now + h1_window
      if states or not full then
        if need ~= 1 or h1_n > h1_max then
          at = nil
          local gone = 0
          if h1_lu < h1_edge then
            if h1_lp < h1_lq then -- mostly the oldest entry is enough.
              local behind = h1_lp
              local delta, n
              do
                local a, b, c, d, e = byte(h1_ls, behind, behind + 4)
                if a < 0x80 then delta, behind = a, behind + 1
                elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
                elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, behind + 1), behind + 6
                else delta, behind = decode('>I7', h1_ls, behind + 1) end
              end
              n = delta % 2
              delta = (delta - n) / 2
              if n == 1 then
                do
                  local a, b, c, d, e = byte(h1_ls, behind, behind + 4)
                  if a < 0x80 then n, behind = a, behind + 1
                  elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
                  elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                  elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                  elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                  elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, behind + 1), behind + 6
                  else n, behind = decode('>I7', h1_ls, behind + 1) end
                end
              else
                n = 1
              end
              if n >= 1 then at = h1_lu end
            end
            if not at then
              if not seek then parse, seek, retreat = lengthy() end
              local _, u
              _, _, _, _, u, gone = seek(h1_key, h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, 0, h1_to, h1_z, h1_o, -1, 1)
              if u < h1_edge then at = u end
            end
          end
          if not at then
            if h1_push and gone + h1_push >= 1 then at = h1_edge else at = h1_newest end
          end
        end
        h1_next = at - now + h1_window
      end
    end
    if wait >= 0 and h1_wait > wait or h1_wait < 0 then wait = h1_wait end
    if h1_reset > reset then reset = h1_reset end
    if h1_max - h1_used < remaining then remaining = h1_max - h1_used end
    if not full then
      if h1_next > 0 and h1_next < validFor then validFor = h1_next end
      if h1_gapwait > 0 and h1_gapwait < validFor then validFor = h1_gapwait end
      -- bound: the limit because of which the attempt was not granted in full (R8).
      if times > 1 then h1_room, h1_closed = h1_max - h1_used, h1_gapwait > 0 end -- for the first denied caller.
      if granted > 0 and times == 1 then
        if bound == 0 or h1_room < longest then bound, longest = 1, h1_room end
      elseif h1_closed or (mode == 1 and h1_room <= 0) or (mode ~= 1 and h1_room < h1_n) then
        if bound == 0 or longest >= 0 and (h1_wait > longest or h1_wait < 0) then bound, longest = 1, h1_wait end
      end
    end
  end do
    if add > 0 and h2_n > 0 then
      -- in memory: the new units replace the entries that no longer count (R4).
      local add = h2_cost > 0 and h2_cost or add
      local units = add
      -- adds units at now (R4, R7).
      local mark
      mark = now
      if h2_cell > 0 and h2_cell < 281474976710654 then
        mark = now - now % h2_cell + h2_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h2_cell == 281474976710655 then mark = now - now % h2_window
      end
      local merges = mark <= h2_newest -- a mark never runs back (R9).
      merges = merges or h2_cell == 281474976710654 and h2_own > 0 -- an open window takes all units (R3).
      if mode == 2 then
        -- CountDenied: keeps the newest entries that reach Max, and the oldest of them whole (R6). An entry counts at most
        -- Max.
        local most = merges and h2_max - h2_own or h2_max
        if units > most then units = most end
        local spare, gone = h2_used - h2_max + units, 0
        if spare >= 0 and h2_lu < h2_edge then
          if not seek then parse, seek, retreat = lengthy() end
          h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, gone = seek(h2_key, h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, 0, h2_to, h2_z, h2_o, -1, spare + 1)
        end
        if not merges and h2_lu == h2_edge and gone + h2_own <= spare then gone, h2_own = gone + h2_own, 0 end
        h2_used = h2_used - gone
      end
      if merges then
        h2_own = h2_own + units
      else
        if h2_own > 0 or h2_lu < h2_edge then h2_push = h2_own else h2_lu, h2_edge = mark, mark end
        h2_newest, h2_own = mark, units
      end
      h2_used, h2_last = h2_used + units, now
      if mode == 2 and h2_max == 0 then -- a limit of 0 keeps no entry (R6).
        h2_newest, h2_edge, h2_push = 0, 0, false
        -- no older entry counts.
        h2_ls, h2_lp, h2_lq, h2_lc, h2_lu = '', 1, 1, h2_to + 1, h2_edge
      end
    end
    -- h2_wait: until n more units fit. h2_reset: until no unit counts. h2_next: until the oldest entry leaves (R8).
    h2_gapwait = now - h2_last < h2_gap and h2_gap - (now - h2_last) or 0
    h2_wait = h2_gapwait
    local need, at = h2_used - h2_max + h2_n, nil
    if h2_n > h2_max then
      h2_wait = -1
    elseif need > 0 then
      at = nil
      local gone = 0
      if h2_lu < h2_edge then
        if h2_lp < h2_lq then -- mostly the oldest entry is enough.
          local behind = h2_lp
          local delta, n
          do
            local a, b, c, d, e = byte(h2_ls, behind, behind + 4)
            if a < 0x80 then delta, behind = a, behind + 1
            elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
            elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
            elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
            elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
            elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, behind + 1), behind + 6
            else delta, behind = decode('>I7', h2_ls, behind + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h2_ls, behind, behind + 4)
              if a < 0x80 then n, behind = a, behind + 1
              elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
              elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
              elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
              elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
              elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, behind + 1), behind + 6
              else n, behind = decode('>I7', h2_ls, behind + 1) end
            end
          else
            n = 1
          end
          if n >= need then at = h2_lu end
        end
        if not at then
          if not seek then parse, seek, retreat = lengthy() end
          local _, u
          _, _, _, _, u, gone = seek(h2_key, h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, 0, h2_to, h2_z, h2_o, -1, need)
          if u < h2_edge then at = u end
        end
      end
      if not at then
        if h2_push and gone + h2_push >= need then at = h2_edge else at = h2_newest end
      end
      if at - now + h2_window > h2_wait then h2_wait = at - now + h2_window end
    end
    h2_reset, h2_next = 0, 0
    if h2_used > 0 then
      h2_reset = h2_newest - now + h2_window
      if states or not full then
        if need ~= 1 or h2_n > h2_max then
          at = nil
          local gone = 0
          if h2_lu < h2_edge then
            if h2_lp < h2_lq then -- mostly the oldest entry is enough.
              local behind = h2_lp
              local delta, n
              do
                local a, b, c, d, e = byte(h2_ls, behind, behind + 4)
                if a < 0x80 then delta, behind = a, behind + 1
                elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
                elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, behind + 1), behind + 6
                else delta, behind = decode('>I7', h2_ls, behind + 1) end
              end
              n = delta % 2
              delta = (delta - n) / 2
              if n == 1 then
                do
                  local a, b, c, d, e = byte(h2_ls, behind, behind + 4)
                  if a < 0x80 then n, behind = a, behind + 1
                  elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
                  elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                  elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                  elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                  elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, behind + 1), behind + 6
                  else n, behind = decode('>I7', h2_ls, behind + 1) end
                end
              else
                n = 1
              end
              if n >= 1 then at = h2_lu end
            end
            if not at then
              if not seek then parse, seek, retreat = lengthy() end
              local _, u
              _, _, _, _, u, gone = seek(h2_key, h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, 0, h2_to, h2_z, h2_o, -1, 1)
              if u < h2_edge then at = u end
            end
          end
          if not at then
            if h2_push and gone + h2_push >= 1 then at = h2_edge else at = h2_newest end
          end
        end
        h2_next = at - now + h2_window
      end
    end
    if wait >= 0 and h2_wait > wait or h2_wait < 0 then wait = h2_wait end
    if h2_reset > reset then reset = h2_reset end
    if h2_max - h2_used < remaining then remaining = h2_max - h2_used end
    if not full then
      if h2_next > 0 and h2_next < validFor then validFor = h2_next end
      if h2_gapwait > 0 and h2_gapwait < validFor then validFor = h2_gapwait end
      -- bound: the limit because of which the attempt was not granted in full (R8).
      if times > 1 then h2_room, h2_closed = h2_max - h2_used, h2_gapwait > 0 end -- for the first denied caller.
      if granted > 0 and times == 1 then
        if bound == 0 or h2_room < longest then bound, longest = 2, h2_room end
      elseif h2_closed or (mode == 1 and h2_room <= 0) or (mode ~= 1 and h2_room < h2_n) then
        if bound == 0 or longest >= 0 and (h2_wait > longest or h2_wait < 0) then bound, longest = 2, h2_wait end
      end
    end
  end do
    if add > 0 and h3_n > 0 then
      -- in memory: the new units replace the entries that no longer count (R4).
      local add = h3_cost > 0 and h3_cost or add
      local units = add
      -- adds units at now (R4, R7).
      local mark
      mark = now
      if h3_cell > 0 and h3_cell < 281474976710654 then
        mark = now - now % h3_cell + h3_cell
        if mark > 9007199254740991 then mark = 9007199254740991 end -- no instant is later.
      elseif h3_cell == 281474976710655 then mark = now - now % h3_window
      end
      local merges = mark <= h3_newest -- a mark never runs back (R9).
      merges = merges or h3_cell == 281474976710654 and h3_own > 0 -- an open window takes all units (R3).
      if mode == 2 then
        -- CountDenied: keeps the newest entries that reach Max, and the oldest of them whole (R6). An entry counts at most
        -- Max.
        local most = merges and h3_max - h3_own or h3_max
        if units > most then units = most end
        local spare, gone = h3_used - h3_max + units, 0
        if spare >= 0 and h3_lu < h3_edge then
          if not seek then parse, seek, retreat = lengthy() end
          h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, gone = seek(h3_key, h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, 0, h3_to, h3_z, h3_o, -1, spare + 1)
        end
        if not merges and h3_lu == h3_edge and gone + h3_own <= spare then gone, h3_own = gone + h3_own, 0 end
        h3_used = h3_used - gone
      end
      if merges then
        h3_own = h3_own + units
      else
        if h3_own > 0 or h3_lu < h3_edge then h3_push = h3_own else h3_lu, h3_edge = mark, mark end
        h3_newest, h3_own = mark, units
      end
      h3_used, h3_last = h3_used + units, now
      if mode == 2 and h3_max == 0 then -- a limit of 0 keeps no entry (R6).
        h3_newest, h3_edge, h3_push = 0, 0, false
        -- no older entry counts.
        h3_ls, h3_lp, h3_lq, h3_lc, h3_lu = '', 1, 1, h3_to + 1, h3_edge
      end
    end
    -- h3_wait: until n more units fit. h3_reset: until no unit counts. h3_next: until the oldest entry leaves (R8).
    h3_gapwait = now - h3_last < h3_gap and h3_gap - (now - h3_last) or 0
    h3_wait = h3_gapwait
    local need, at = h3_used - h3_max + h3_n, nil
    if h3_n > h3_max then
      h3_wait = -1
    elseif need > 0 then
      at = nil
      local gone = 0
      if h3_lu < h3_edge then
        if h3_lp < h3_lq then -- mostly the oldest entry is enough.
          local behind = h3_lp
          local delta, n
          do
            local a, b, c, d, e = byte(h3_ls, behind, behind + 4)
            if a < 0x80 then delta, behind = a, behind + 1
            elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
            elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
            elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
            elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
            elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, behind + 1), behind + 6
            else delta, behind = decode('>I7', h3_ls, behind + 1) end
          end
          n = delta % 2
          delta = (delta - n) / 2
          if n == 1 then
            do
              local a, b, c, d, e = byte(h3_ls, behind, behind + 4)
              if a < 0x80 then n, behind = a, behind + 1
              elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
              elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
              elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
              elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
              elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, behind + 1), behind + 6
              else n, behind = decode('>I7', h3_ls, behind + 1) end
            end
          else
            n = 1
          end
          if n >= need then at = h3_lu end
        end
        if not at then
          if not seek then parse, seek, retreat = lengthy() end
          local _, u
          _, _, _, _, u, gone = seek(h3_key, h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, 0, h3_to, h3_z, h3_o, -1, need)
          if u < h3_edge then at = u end
        end
      end
      if not at then
        if h3_push and gone + h3_push >= need then at = h3_edge else at = h3_newest end
      end
      if at - now + h3_window > h3_wait then h3_wait = at - now + h3_window end
    end
    h3_reset, h3_next = 0, 0
    if h3_used > 0 then
      h3_reset = h3_newest - now + h3_window
      if states or not full then
        if need ~= 1 or h3_n > h3_max then
          at = nil
          local gone = 0
          if h3_lu < h3_edge then
            if h3_lp < h3_lq then -- mostly the oldest entry is enough.
              local behind = h3_lp
              local delta, n
              do
                local a, b, c, d, e = byte(h3_ls, behind, behind + 4)
                if a < 0x80 then delta, behind = a, behind + 1
                elseif a < 0xC0 then delta, behind = (a - 0x80) * 0x100 + b, behind + 2
                elseif a < 0xE0 then delta, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                elseif a < 0xF0 then delta, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                elseif a < 0xF8 then delta, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                elseif a < 0xFC then delta, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, behind + 1), behind + 6
                else delta, behind = decode('>I7', h3_ls, behind + 1) end
              end
              n = delta % 2
              delta = (delta - n) / 2
              if n == 1 then
                do
                  local a, b, c, d, e = byte(h3_ls, behind, behind + 4)
                  if a < 0x80 then n, behind = a, behind + 1
                  elseif a < 0xC0 then n, behind = (a - 0x80) * 0x100 + b, behind + 2
                  elseif a < 0xE0 then n, behind = (a - 0xC0) * 0x10000 + b * 0x100 + c, behind + 3
                  elseif a < 0xF0 then n, behind = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, behind + 4
                  elseif a < 0xF8 then n, behind = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, behind + 5
                  elseif a < 0xFC then n, behind = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, behind + 1), behind + 6
                  else n, behind = decode('>I7', h3_ls, behind + 1) end
                end
              else
                n = 1
              end
              if n >= 1 then at = h3_lu end
            end
            if not at then
              if not seek then parse, seek, retreat = lengthy() end
              local _, u
              _, _, _, _, u, gone = seek(h3_key, h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, 0, h3_to, h3_z, h3_o, -1, 1)
              if u < h3_edge then at = u end
            end
          end
          if not at then
            if h3_push and gone + h3_push >= 1 then at = h3_edge else at = h3_newest end
          end
        end
        h3_next = at - now + h3_window
      end
    end
    if wait >= 0 and h3_wait > wait or h3_wait < 0 then wait = h3_wait end
    if h3_reset > reset then reset = h3_reset end
    if h3_max - h3_used < remaining then remaining = h3_max - h3_used end
    if not full then
      if h3_next > 0 and h3_next < validFor then validFor = h3_next end
      if h3_gapwait > 0 and h3_gapwait < validFor then validFor = h3_gapwait end
      -- bound: the limit because of which the attempt was not granted in full (R8).
      if times > 1 then h3_room, h3_closed = h3_max - h3_used, h3_gapwait > 0 end -- for the first denied caller.
      if granted > 0 and times == 1 then
        if bound == 0 or h3_room < longest then bound, longest = 3, h3_room end
      elseif h3_closed or (mode == 1 and h3_room <= 0) or (mode ~= 1 and h3_room < h3_n) then
        if bound == 0 or longest >= 0 and (h3_wait > longest or h3_wait < 0) then bound, longest = 3, h3_wait end
      end
    end
  end
  do
    if add > 0 and h1_n > 0 then
      -- writes the history from its place on, then h1_push units of the entry at h1_edge, in one HSET.
      do
        local e = ''
        if h1_push then do
            local v = (h1_newest - h1_edge) * 2
            if h1_push == 1 then
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
              v = h1_push
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
        local from, front, tail, body, left, rest = h1_lc, h1_lq - h1_lp, #e, nil, nil, nil
        if from > h1_to then -- the place is in the tail, or no older entry is left.
          from, h1_late, body = h1_to, 0, string.sub(h1_ls, h1_lp, h1_lq - 1)
        elseif h1_ls == h1_z and h1_lq == h1_o then
          tail, body = tail + #h1_z - h1_o + 1, string.sub(h1_ls, h1_lp)
        else
          tail, body = tail + #h1_z - h1_o + 1, string.sub(h1_ls, h1_lp, h1_lq - 1) .. string.sub(h1_z, h1_o)
        end
        if h1_push then h1_late = h1_late + h1_push end
        if from == h1_to and front + tail <= 88 then
          front, tail, h1_late = front + tail, 0, 0
        elseif h1_lc > h1_from and h1_lc <= h1_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h1_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h1_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, p + 1), p + 6
            else units, p = decode('>I7', h1_ls, p + 1) end
          end
          while i < pieces and p < h1_lp do p, i = p + byte(h1_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h1_lc - 1, 0, string.sub(h1_z, h1_o)
          elseif i < pieces then
            from, front, body = h1_lc - 1, p - h1_lp, string.sub(h1_ls, h1_lp, p - 1) .. string.sub(h1_z, h1_o)
            left, rest = encode('>I6', from), string.sub(h1_ls, 1, 7) .. encode('BB', h1_lq - p, pieces - i) ..
            string.sub(h1_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h1_ls, p)
          end
        end
        if from == h1_to and front + tail == 0 and h1_low < h1_top then -- only the newest entry is left of many.
          call('UNLINK', h1_key)
          h1_low, h1_top, h1_to, h1_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h1_to and h1_to % 32 ~= 0 then
            name = encode('>I6', h1_to - 1)
            text = left == name and rest or call('HGET', h1_key, name)
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
            if units > 0 then units = units + h1_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h1_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h1_to)
            if from == h1_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h1_used - h1_own < 0x80 then held = encode('B', h1_used - h1_own)
              elseif h1_used - h1_own < 0x4000 then held = encode('>I2', h1_used - h1_own + 0x8000)
              elseif h1_used - h1_own < 0x200000 then held = encode('>I3', h1_used - h1_own + 0xC00000)
              elseif h1_used - h1_own < 0x10000000 then held = encode('>I4', h1_used - h1_own + 0xE0000000)
              elseif h1_used - h1_own < 0x800000000 then held = encode('>I5', h1_used - h1_own + 0xF000000000)
              elseif h1_used - h1_own < 0x40000000000 then held = encode('>I6', h1_used - h1_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h1_used - h1_own) end
              chunk, front = encode('>I7BBBB', h1_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h1_late < 0x80 then held = encode('B', h1_late)
              elseif h1_late < 0x4000 then held = encode('>I2', h1_late + 0x8000)
              elseif h1_late < 0x200000 then held = encode('>I3', h1_late + 0xC00000)
              elseif h1_late < 0x10000000 then held = encode('>I4', h1_late + 0xE0000000)
              elseif h1_late < 0x800000000 then held = encode('>I5', h1_late + 0xF000000000)
              elseif h1_late < 0x40000000000 then held = encode('>I6', h1_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h1_late) end
              chunk = encode('>I7BBB', h1_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h1_to + 1) % 32 == 0 and h1_to + 1 - 32 >= from then
              local names, sum = {}, h1_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h1_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h1_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h1_newest, sum) end
            end
            h1_to = h1_to + 1
            if h1_top < h1_to then h1_top = h1_to end
          end
          body, e, tail, h1_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h1_low + 1 == from and h1_top == h1_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h1_low = encode('>I6', h1_low), from
        elseif h1_low < from or h1_top > h1_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h1_low < from and #dead < 16 do
            forget(h1_low)
            h1_low = h1_low + 1
          end
          while h1_top > h1_to and #dead < 16 do
            h1_top = h1_top - 1
            forget(h1_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h1_window (R13).
        local renew
        local ends = h1_window + (h1_newest > h1_last and h1_newest or h1_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h1_window.
        local spare, virtually = h1_window / 4, 0
        if virtual then spare, virtually = h1_window, 549755813888 end
        local promised = (h1_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h1_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h1_newest == h1_last and h1_own < 65536 and not (h1_wide and h1_lu < h1_newest)
        if h1_low == h1_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h1_last, h1_lu, h1_lives, h1_own, h1_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h1_last, h1_newest, h1_lu, h1_lives, h1_own, h1_used, front)
          end
        elseif narrow and h1_used < 4294967296 and h1_low == from and h1_top == h1_to and h1_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h1_last, h1_lu, h1_lives, h1_own, h1_used, front, tail, h1_late, from, h1_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h1_last, h1_newest, h1_lu, h1_lives, h1_own, h1_used,
          h1_low, from - h1_low, h1_to - h1_low, h1_top - h1_low, h1_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h1_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h1_to / 32 - 1), block end
          call('HSET', h1_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h1_key, unpack(dead)) else call('HDEL', h1_key, dead) end
        end
        if renew then call('PEXPIRE', h1_key, string.format('%.0f', renew)) end
      end
    elseif h1_redated and kind < 3 then -- a denied attempt stores the correction and drops no entry (R2, R4).
      local used = h1_used
      h1_ls, h1_lp, h1_lq, h1_lc, h1_lu, h1_own, h1_used = h1_s, h1_p, h1_q, h1_from, h1_first, h1_units, h1_total
      -- writes the history from its place on, then h1_push units of the entry at h1_edge, in one HSET.
      do
        local e = ''
        if h1_push then do
            local v = (h1_newest - h1_edge) * 2
            if h1_push == 1 then
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
              v = h1_push
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
        local from, front, tail, body, left, rest = h1_lc, h1_lq - h1_lp, #e, nil, nil, nil
        if from > h1_to then -- the place is in the tail, or no older entry is left.
          from, h1_late, body = h1_to, 0, string.sub(h1_ls, h1_lp, h1_lq - 1)
        elseif h1_ls == h1_z and h1_lq == h1_o then
          tail, body = tail + #h1_z - h1_o + 1, string.sub(h1_ls, h1_lp)
        else
          tail, body = tail + #h1_z - h1_o + 1, string.sub(h1_ls, h1_lp, h1_lq - 1) .. string.sub(h1_z, h1_o)
        end
        if h1_push then h1_late = h1_late + h1_push end
        if from == h1_to and front + tail <= 88 then
          front, tail, h1_late = front + tail, 0, 0
        elseif h1_lc > h1_from and h1_lc <= h1_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h1_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h1_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h1_ls, p + 1), p + 6
            else units, p = decode('>I7', h1_ls, p + 1) end
          end
          while i < pieces and p < h1_lp do p, i = p + byte(h1_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h1_lc - 1, 0, string.sub(h1_z, h1_o)
          elseif i < pieces then
            from, front, body = h1_lc - 1, p - h1_lp, string.sub(h1_ls, h1_lp, p - 1) .. string.sub(h1_z, h1_o)
            left, rest = encode('>I6', from), string.sub(h1_ls, 1, 7) .. encode('BB', h1_lq - p, pieces - i) ..
            string.sub(h1_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h1_ls, p)
          end
        end
        if from == h1_to and front + tail == 0 and h1_low < h1_top then -- only the newest entry is left of many.
          call('UNLINK', h1_key)
          h1_low, h1_top, h1_to, h1_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h1_to and h1_to % 32 ~= 0 then
            name = encode('>I6', h1_to - 1)
            text = left == name and rest or call('HGET', h1_key, name)
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
            if units > 0 then units = units + h1_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h1_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h1_to)
            if from == h1_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h1_used - h1_own < 0x80 then held = encode('B', h1_used - h1_own)
              elseif h1_used - h1_own < 0x4000 then held = encode('>I2', h1_used - h1_own + 0x8000)
              elseif h1_used - h1_own < 0x200000 then held = encode('>I3', h1_used - h1_own + 0xC00000)
              elseif h1_used - h1_own < 0x10000000 then held = encode('>I4', h1_used - h1_own + 0xE0000000)
              elseif h1_used - h1_own < 0x800000000 then held = encode('>I5', h1_used - h1_own + 0xF000000000)
              elseif h1_used - h1_own < 0x40000000000 then held = encode('>I6', h1_used - h1_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h1_used - h1_own) end
              chunk, front = encode('>I7BBBB', h1_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h1_late < 0x80 then held = encode('B', h1_late)
              elseif h1_late < 0x4000 then held = encode('>I2', h1_late + 0x8000)
              elseif h1_late < 0x200000 then held = encode('>I3', h1_late + 0xC00000)
              elseif h1_late < 0x10000000 then held = encode('>I4', h1_late + 0xE0000000)
              elseif h1_late < 0x800000000 then held = encode('>I5', h1_late + 0xF000000000)
              elseif h1_late < 0x40000000000 then held = encode('>I6', h1_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h1_late) end
              chunk = encode('>I7BBB', h1_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h1_to + 1) % 32 == 0 and h1_to + 1 - 32 >= from then
              local names, sum = {}, h1_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h1_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h1_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h1_newest, sum) end
            end
            h1_to = h1_to + 1
            if h1_top < h1_to then h1_top = h1_to end
          end
          body, e, tail, h1_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h1_low + 1 == from and h1_top == h1_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h1_low = encode('>I6', h1_low), from
        elseif h1_low < from or h1_top > h1_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h1_low < from and #dead < 16 do
            forget(h1_low)
            h1_low = h1_low + 1
          end
          while h1_top > h1_to and #dead < 16 do
            h1_top = h1_top - 1
            forget(h1_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h1_window (R13).
        local renew
        local ends = h1_window + (h1_newest > h1_last and h1_newest or h1_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h1_window.
        local spare, virtually = h1_window / 4, 0
        if virtual then spare, virtually = h1_window, 549755813888 end
        local promised = (h1_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h1_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h1_newest == h1_last and h1_own < 65536 and not (h1_wide and h1_lu < h1_newest)
        if h1_low == h1_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h1_last, h1_lu, h1_lives, h1_own, h1_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h1_last, h1_newest, h1_lu, h1_lives, h1_own, h1_used, front)
          end
        elseif narrow and h1_used < 4294967296 and h1_low == from and h1_top == h1_to and h1_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h1_last, h1_lu, h1_lives, h1_own, h1_used, front, tail, h1_late, from, h1_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h1_last, h1_newest, h1_lu, h1_lives, h1_own, h1_used,
          h1_low, from - h1_low, h1_to - h1_low, h1_top - h1_low, h1_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h1_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h1_to / 32 - 1), block end
          call('HSET', h1_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h1_key, unpack(dead)) else call('HDEL', h1_key, dead) end
        end
        if renew then call('PEXPIRE', h1_key, string.format('%.0f', renew)) end
      end
      h1_used = used
    end
  end do
    if add > 0 and h2_n > 0 then
      -- writes the history from its place on, then h2_push units of the entry at h2_edge, in one HSET.
      do
        local e = ''
        if h2_push then do
            local v = (h2_newest - h2_edge) * 2
            if h2_push == 1 then
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
              v = h2_push
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
        local from, front, tail, body, left, rest = h2_lc, h2_lq - h2_lp, #e, nil, nil, nil
        if from > h2_to then -- the place is in the tail, or no older entry is left.
          from, h2_late, body = h2_to, 0, string.sub(h2_ls, h2_lp, h2_lq - 1)
        elseif h2_ls == h2_z and h2_lq == h2_o then
          tail, body = tail + #h2_z - h2_o + 1, string.sub(h2_ls, h2_lp)
        else
          tail, body = tail + #h2_z - h2_o + 1, string.sub(h2_ls, h2_lp, h2_lq - 1) .. string.sub(h2_z, h2_o)
        end
        if h2_push then h2_late = h2_late + h2_push end
        if from == h2_to and front + tail <= 88 then
          front, tail, h2_late = front + tail, 0, 0
        elseif h2_lc > h2_from and h2_lc <= h2_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h2_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h2_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, p + 1), p + 6
            else units, p = decode('>I7', h2_ls, p + 1) end
          end
          while i < pieces and p < h2_lp do p, i = p + byte(h2_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h2_lc - 1, 0, string.sub(h2_z, h2_o)
          elseif i < pieces then
            from, front, body = h2_lc - 1, p - h2_lp, string.sub(h2_ls, h2_lp, p - 1) .. string.sub(h2_z, h2_o)
            left, rest = encode('>I6', from), string.sub(h2_ls, 1, 7) .. encode('BB', h2_lq - p, pieces - i) ..
            string.sub(h2_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h2_ls, p)
          end
        end
        if from == h2_to and front + tail == 0 and h2_low < h2_top then -- only the newest entry is left of many.
          call('UNLINK', h2_key)
          h2_low, h2_top, h2_to, h2_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h2_to and h2_to % 32 ~= 0 then
            name = encode('>I6', h2_to - 1)
            text = left == name and rest or call('HGET', h2_key, name)
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
            if units > 0 then units = units + h2_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h2_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h2_to)
            if from == h2_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h2_used - h2_own < 0x80 then held = encode('B', h2_used - h2_own)
              elseif h2_used - h2_own < 0x4000 then held = encode('>I2', h2_used - h2_own + 0x8000)
              elseif h2_used - h2_own < 0x200000 then held = encode('>I3', h2_used - h2_own + 0xC00000)
              elseif h2_used - h2_own < 0x10000000 then held = encode('>I4', h2_used - h2_own + 0xE0000000)
              elseif h2_used - h2_own < 0x800000000 then held = encode('>I5', h2_used - h2_own + 0xF000000000)
              elseif h2_used - h2_own < 0x40000000000 then held = encode('>I6', h2_used - h2_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h2_used - h2_own) end
              chunk, front = encode('>I7BBBB', h2_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h2_late < 0x80 then held = encode('B', h2_late)
              elseif h2_late < 0x4000 then held = encode('>I2', h2_late + 0x8000)
              elseif h2_late < 0x200000 then held = encode('>I3', h2_late + 0xC00000)
              elseif h2_late < 0x10000000 then held = encode('>I4', h2_late + 0xE0000000)
              elseif h2_late < 0x800000000 then held = encode('>I5', h2_late + 0xF000000000)
              elseif h2_late < 0x40000000000 then held = encode('>I6', h2_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h2_late) end
              chunk = encode('>I7BBB', h2_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h2_to + 1) % 32 == 0 and h2_to + 1 - 32 >= from then
              local names, sum = {}, h2_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h2_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h2_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h2_newest, sum) end
            end
            h2_to = h2_to + 1
            if h2_top < h2_to then h2_top = h2_to end
          end
          body, e, tail, h2_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h2_low + 1 == from and h2_top == h2_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h2_low = encode('>I6', h2_low), from
        elseif h2_low < from or h2_top > h2_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h2_low < from and #dead < 16 do
            forget(h2_low)
            h2_low = h2_low + 1
          end
          while h2_top > h2_to and #dead < 16 do
            h2_top = h2_top - 1
            forget(h2_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h2_window (R13).
        local renew
        local ends = h2_window + (h2_newest > h2_last and h2_newest or h2_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h2_window.
        local spare, virtually = h2_window / 4, 0
        if virtual then spare, virtually = h2_window, 549755813888 end
        local promised = (h2_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h2_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h2_newest == h2_last and h2_own < 65536 and not (h2_wide and h2_lu < h2_newest)
        if h2_low == h2_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h2_last, h2_lu, h2_lives, h2_own, h2_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h2_last, h2_newest, h2_lu, h2_lives, h2_own, h2_used, front)
          end
        elseif narrow and h2_used < 4294967296 and h2_low == from and h2_top == h2_to and h2_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h2_last, h2_lu, h2_lives, h2_own, h2_used, front, tail, h2_late, from, h2_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h2_last, h2_newest, h2_lu, h2_lives, h2_own, h2_used,
          h2_low, from - h2_low, h2_to - h2_low, h2_top - h2_low, h2_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h2_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h2_to / 32 - 1), block end
          call('HSET', h2_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h2_key, unpack(dead)) else call('HDEL', h2_key, dead) end
        end
        if renew then call('PEXPIRE', h2_key, string.format('%.0f', renew)) end
      end
    elseif h2_redated and kind < 3 then -- a denied attempt stores the correction and drops no entry (R2, R4).
      local used = h2_used
      h2_ls, h2_lp, h2_lq, h2_lc, h2_lu, h2_own, h2_used = h2_s, h2_p, h2_q, h2_from, h2_first, h2_units, h2_total
      -- writes the history from its place on, then h2_push units of the entry at h2_edge, in one HSET.
      do
        local e = ''
        if h2_push then do
            local v = (h2_newest - h2_edge) * 2
            if h2_push == 1 then
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
              v = h2_push
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
        local from, front, tail, body, left, rest = h2_lc, h2_lq - h2_lp, #e, nil, nil, nil
        if from > h2_to then -- the place is in the tail, or no older entry is left.
          from, h2_late, body = h2_to, 0, string.sub(h2_ls, h2_lp, h2_lq - 1)
        elseif h2_ls == h2_z and h2_lq == h2_o then
          tail, body = tail + #h2_z - h2_o + 1, string.sub(h2_ls, h2_lp)
        else
          tail, body = tail + #h2_z - h2_o + 1, string.sub(h2_ls, h2_lp, h2_lq - 1) .. string.sub(h2_z, h2_o)
        end
        if h2_push then h2_late = h2_late + h2_push end
        if from == h2_to and front + tail <= 88 then
          front, tail, h2_late = front + tail, 0, 0
        elseif h2_lc > h2_from and h2_lc <= h2_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h2_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h2_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h2_ls, p + 1), p + 6
            else units, p = decode('>I7', h2_ls, p + 1) end
          end
          while i < pieces and p < h2_lp do p, i = p + byte(h2_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h2_lc - 1, 0, string.sub(h2_z, h2_o)
          elseif i < pieces then
            from, front, body = h2_lc - 1, p - h2_lp, string.sub(h2_ls, h2_lp, p - 1) .. string.sub(h2_z, h2_o)
            left, rest = encode('>I6', from), string.sub(h2_ls, 1, 7) .. encode('BB', h2_lq - p, pieces - i) ..
            string.sub(h2_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h2_ls, p)
          end
        end
        if from == h2_to and front + tail == 0 and h2_low < h2_top then -- only the newest entry is left of many.
          call('UNLINK', h2_key)
          h2_low, h2_top, h2_to, h2_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h2_to and h2_to % 32 ~= 0 then
            name = encode('>I6', h2_to - 1)
            text = left == name and rest or call('HGET', h2_key, name)
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
            if units > 0 then units = units + h2_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h2_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h2_to)
            if from == h2_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h2_used - h2_own < 0x80 then held = encode('B', h2_used - h2_own)
              elseif h2_used - h2_own < 0x4000 then held = encode('>I2', h2_used - h2_own + 0x8000)
              elseif h2_used - h2_own < 0x200000 then held = encode('>I3', h2_used - h2_own + 0xC00000)
              elseif h2_used - h2_own < 0x10000000 then held = encode('>I4', h2_used - h2_own + 0xE0000000)
              elseif h2_used - h2_own < 0x800000000 then held = encode('>I5', h2_used - h2_own + 0xF000000000)
              elseif h2_used - h2_own < 0x40000000000 then held = encode('>I6', h2_used - h2_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h2_used - h2_own) end
              chunk, front = encode('>I7BBBB', h2_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h2_late < 0x80 then held = encode('B', h2_late)
              elseif h2_late < 0x4000 then held = encode('>I2', h2_late + 0x8000)
              elseif h2_late < 0x200000 then held = encode('>I3', h2_late + 0xC00000)
              elseif h2_late < 0x10000000 then held = encode('>I4', h2_late + 0xE0000000)
              elseif h2_late < 0x800000000 then held = encode('>I5', h2_late + 0xF000000000)
              elseif h2_late < 0x40000000000 then held = encode('>I6', h2_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h2_late) end
              chunk = encode('>I7BBB', h2_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h2_to + 1) % 32 == 0 and h2_to + 1 - 32 >= from then
              local names, sum = {}, h2_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h2_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h2_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h2_newest, sum) end
            end
            h2_to = h2_to + 1
            if h2_top < h2_to then h2_top = h2_to end
          end
          body, e, tail, h2_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h2_low + 1 == from and h2_top == h2_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h2_low = encode('>I6', h2_low), from
        elseif h2_low < from or h2_top > h2_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h2_low < from and #dead < 16 do
            forget(h2_low)
            h2_low = h2_low + 1
          end
          while h2_top > h2_to and #dead < 16 do
            h2_top = h2_top - 1
            forget(h2_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h2_window (R13).
        local renew
        local ends = h2_window + (h2_newest > h2_last and h2_newest or h2_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h2_window.
        local spare, virtually = h2_window / 4, 0
        if virtual then spare, virtually = h2_window, 549755813888 end
        local promised = (h2_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h2_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h2_newest == h2_last and h2_own < 65536 and not (h2_wide and h2_lu < h2_newest)
        if h2_low == h2_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h2_last, h2_lu, h2_lives, h2_own, h2_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h2_last, h2_newest, h2_lu, h2_lives, h2_own, h2_used, front)
          end
        elseif narrow and h2_used < 4294967296 and h2_low == from and h2_top == h2_to and h2_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h2_last, h2_lu, h2_lives, h2_own, h2_used, front, tail, h2_late, from, h2_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h2_last, h2_newest, h2_lu, h2_lives, h2_own, h2_used,
          h2_low, from - h2_low, h2_to - h2_low, h2_top - h2_low, h2_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h2_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h2_to / 32 - 1), block end
          call('HSET', h2_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h2_key, unpack(dead)) else call('HDEL', h2_key, dead) end
        end
        if renew then call('PEXPIRE', h2_key, string.format('%.0f', renew)) end
      end
      h2_used = used
    end
  end do
    if add > 0 and h3_n > 0 then
      -- writes the history from its place on, then h3_push units of the entry at h3_edge, in one HSET.
      do
        local e = ''
        if h3_push then do
            local v = (h3_newest - h3_edge) * 2
            if h3_push == 1 then
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
              v = h3_push
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
        local from, front, tail, body, left, rest = h3_lc, h3_lq - h3_lp, #e, nil, nil, nil
        if from > h3_to then -- the place is in the tail, or no older entry is left.
          from, h3_late, body = h3_to, 0, string.sub(h3_ls, h3_lp, h3_lq - 1)
        elseif h3_ls == h3_z and h3_lq == h3_o then
          tail, body = tail + #h3_z - h3_o + 1, string.sub(h3_ls, h3_lp)
        else
          tail, body = tail + #h3_z - h3_o + 1, string.sub(h3_ls, h3_lp, h3_lq - 1) .. string.sub(h3_z, h3_o)
        end
        if h3_push then h3_late = h3_late + h3_push end
        if from == h3_to and front + tail <= 88 then
          front, tail, h3_late = front + tail, 0, 0
        elseif h3_lc > h3_from and h3_lc <= h3_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h3_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h3_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, p + 1), p + 6
            else units, p = decode('>I7', h3_ls, p + 1) end
          end
          while i < pieces and p < h3_lp do p, i = p + byte(h3_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h3_lc - 1, 0, string.sub(h3_z, h3_o)
          elseif i < pieces then
            from, front, body = h3_lc - 1, p - h3_lp, string.sub(h3_ls, h3_lp, p - 1) .. string.sub(h3_z, h3_o)
            left, rest = encode('>I6', from), string.sub(h3_ls, 1, 7) .. encode('BB', h3_lq - p, pieces - i) ..
            string.sub(h3_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h3_ls, p)
          end
        end
        if from == h3_to and front + tail == 0 and h3_low < h3_top then -- only the newest entry is left of many.
          call('UNLINK', h3_key)
          h3_low, h3_top, h3_to, h3_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h3_to and h3_to % 32 ~= 0 then
            name = encode('>I6', h3_to - 1)
            text = left == name and rest or call('HGET', h3_key, name)
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
            if units > 0 then units = units + h3_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h3_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h3_to)
            if from == h3_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h3_used - h3_own < 0x80 then held = encode('B', h3_used - h3_own)
              elseif h3_used - h3_own < 0x4000 then held = encode('>I2', h3_used - h3_own + 0x8000)
              elseif h3_used - h3_own < 0x200000 then held = encode('>I3', h3_used - h3_own + 0xC00000)
              elseif h3_used - h3_own < 0x10000000 then held = encode('>I4', h3_used - h3_own + 0xE0000000)
              elseif h3_used - h3_own < 0x800000000 then held = encode('>I5', h3_used - h3_own + 0xF000000000)
              elseif h3_used - h3_own < 0x40000000000 then held = encode('>I6', h3_used - h3_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h3_used - h3_own) end
              chunk, front = encode('>I7BBBB', h3_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h3_late < 0x80 then held = encode('B', h3_late)
              elseif h3_late < 0x4000 then held = encode('>I2', h3_late + 0x8000)
              elseif h3_late < 0x200000 then held = encode('>I3', h3_late + 0xC00000)
              elseif h3_late < 0x10000000 then held = encode('>I4', h3_late + 0xE0000000)
              elseif h3_late < 0x800000000 then held = encode('>I5', h3_late + 0xF000000000)
              elseif h3_late < 0x40000000000 then held = encode('>I6', h3_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h3_late) end
              chunk = encode('>I7BBB', h3_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h3_to + 1) % 32 == 0 and h3_to + 1 - 32 >= from then
              local names, sum = {}, h3_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h3_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h3_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h3_newest, sum) end
            end
            h3_to = h3_to + 1
            if h3_top < h3_to then h3_top = h3_to end
          end
          body, e, tail, h3_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h3_low + 1 == from and h3_top == h3_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h3_low = encode('>I6', h3_low), from
        elseif h3_low < from or h3_top > h3_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h3_low < from and #dead < 16 do
            forget(h3_low)
            h3_low = h3_low + 1
          end
          while h3_top > h3_to and #dead < 16 do
            h3_top = h3_top - 1
            forget(h3_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h3_window (R13).
        local renew
        local ends = h3_window + (h3_newest > h3_last and h3_newest or h3_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h3_window.
        local spare, virtually = h3_window / 4, 0
        if virtual then spare, virtually = h3_window, 549755813888 end
        local promised = (h3_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h3_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h3_newest == h3_last and h3_own < 65536 and not (h3_wide and h3_lu < h3_newest)
        if h3_low == h3_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h3_last, h3_lu, h3_lives, h3_own, h3_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h3_last, h3_newest, h3_lu, h3_lives, h3_own, h3_used, front)
          end
        elseif narrow and h3_used < 4294967296 and h3_low == from and h3_top == h3_to and h3_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h3_last, h3_lu, h3_lives, h3_own, h3_used, front, tail, h3_late, from, h3_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h3_last, h3_newest, h3_lu, h3_lives, h3_own, h3_used,
          h3_low, from - h3_low, h3_to - h3_low, h3_top - h3_low, h3_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h3_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h3_to / 32 - 1), block end
          call('HSET', h3_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h3_key, unpack(dead)) else call('HDEL', h3_key, dead) end
        end
        if renew then call('PEXPIRE', h3_key, string.format('%.0f', renew)) end
      end
    elseif h3_redated and kind < 3 then -- a denied attempt stores the correction and drops no entry (R2, R4).
      local used = h3_used
      h3_ls, h3_lp, h3_lq, h3_lc, h3_lu, h3_own, h3_used = h3_s, h3_p, h3_q, h3_from, h3_first, h3_units, h3_total
      -- writes the history from its place on, then h3_push units of the entry at h3_edge, in one HSET.
      do
        local e = ''
        if h3_push then do
            local v = (h3_newest - h3_edge) * 2
            if h3_push == 1 then
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
              v = h3_push
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
        local from, front, tail, body, left, rest = h3_lc, h3_lq - h3_lp, #e, nil, nil, nil
        if from > h3_to then -- the place is in the tail, or no older entry is left.
          from, h3_late, body = h3_to, 0, string.sub(h3_ls, h3_lp, h3_lq - 1)
        elseif h3_ls == h3_z and h3_lq == h3_o then
          tail, body = tail + #h3_z - h3_o + 1, string.sub(h3_ls, h3_lp)
        else
          tail, body = tail + #h3_z - h3_o + 1, string.sub(h3_ls, h3_lp, h3_lq - 1) .. string.sub(h3_z, h3_o)
        end
        if h3_push then h3_late = h3_late + h3_push end
        if from == h3_to and front + tail <= 88 then
          front, tail, h3_late = front + tail, 0, 0
        elseif h3_lc > h3_from and h3_lc <= h3_to and front > 0 then -- the place is in a chunk.
          -- the front gets the rest of the piece with the place; the chunk keeps the others.
          local pieces, units = byte(h3_ls, 9), nil
          local p, i = 10 + pieces, 0
          do
            local a, b, c, d, e = byte(h3_ls, p, p + 4)
            if a < 0x80 then units, p = a, p + 1
            elseif a < 0xC0 then units, p = (a - 0x80) * 0x100 + b, p + 2
            elseif a < 0xE0 then units, p = (a - 0xC0) * 0x10000 + b * 0x100 + c, p + 3
            elseif a < 0xF0 then units, p = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, p + 4
            elseif a < 0xF8 then units, p = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, p + 5
            elseif a < 0xFC then units, p = (a - 0xF8) * 0x10000000000 + decode('>I5', h3_ls, p + 1), p + 6
            else units, p = decode('>I7', h3_ls, p + 1) end
          end
          while i < pieces and p < h3_lp do p, i = p + byte(h3_ls, 10 + i), i + 1 end
          if i == 0 then -- the chunk is still whole.
            from, front, body = h3_lc - 1, 0, string.sub(h3_z, h3_o)
          elseif i < pieces then
            from, front, body = h3_lc - 1, p - h3_lp, string.sub(h3_ls, h3_lp, p - 1) .. string.sub(h3_z, h3_o)
            left, rest = encode('>I6', from), string.sub(h3_ls, 1, 7) .. encode('BB', h3_lq - p, pieces - i) ..
            string.sub(h3_ls, 10 + i, 9 + pieces) .. '\0' .. string.sub(h3_ls, p)
          end
        end
        if from == h3_to and front + tail == 0 and h3_low < h3_top then -- only the newest entry is left of many.
          call('UNLINK', h3_key)
          h3_low, h3_top, h3_to, h3_lives, from = 0, 0, 0, 0, 0
        end
        local name, chunk, block
        if tail >= 48 then
          body = body .. e
          -- the tail becomes a piece of the last chunk, or the first piece of a new one.
          local text, entries, pieces, start, held
          if from < h3_to and h3_to % 32 ~= 0 then
            name = encode('>I6', h3_to - 1)
            text = left == name and rest or call('HGET', h3_key, name)
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
            if units > 0 then units = units + h3_late end
            if units < 0x80 then held = encode('B', units)
            elseif units < 0x4000 then held = encode('>I2', units + 0x8000)
            elseif units < 0x200000 then held = encode('>I3', units + 0xC00000)
            elseif units < 0x10000000 then held = encode('>I4', units + 0xE0000000)
            elseif units < 0x800000000 then held = encode('>I5', units + 0xF000000000)
            elseif units < 0x40000000000 then held = encode('>I6', units + 0xF80000000000)
            else held = encode('>BI7', 0xFC, units) end
            chunk = encode('>I7BB', h3_newest, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
            encode('B', tail) .. held .. sub(text, start)
            chunk = chunk .. string.sub(body, front + 1)
          else
            name = encode('>I6', h3_to)
            if from == h3_to and front > 0 and front + tail <= 200 then -- the first chunk takes the front, too.
              if h3_used - h3_own < 0x80 then held = encode('B', h3_used - h3_own)
              elseif h3_used - h3_own < 0x4000 then held = encode('>I2', h3_used - h3_own + 0x8000)
              elseif h3_used - h3_own < 0x200000 then held = encode('>I3', h3_used - h3_own + 0xC00000)
              elseif h3_used - h3_own < 0x10000000 then held = encode('>I4', h3_used - h3_own + 0xE0000000)
              elseif h3_used - h3_own < 0x800000000 then held = encode('>I5', h3_used - h3_own + 0xF000000000)
              elseif h3_used - h3_own < 0x40000000000 then held = encode('>I6', h3_used - h3_own + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h3_used - h3_own) end
              chunk, front = encode('>I7BBBB', h3_newest, front + tail, 2, front, tail) .. held .. body, 0
            else
              if h3_late < 0x80 then held = encode('B', h3_late)
              elseif h3_late < 0x4000 then held = encode('>I2', h3_late + 0x8000)
              elseif h3_late < 0x200000 then held = encode('>I3', h3_late + 0xC00000)
              elseif h3_late < 0x10000000 then held = encode('>I4', h3_late + 0xE0000000)
              elseif h3_late < 0x800000000 then held = encode('>I5', h3_late + 0xF000000000)
              elseif h3_late < 0x40000000000 then held = encode('>I6', h3_late + 0xF80000000000)
              else held = encode('>BI7', 0xFC, h3_late) end
              chunk = encode('>I7BBB', h3_newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
            end
            -- the chunk completes a block: its field holds the mark after it and its units, for skip.
            if (h3_to + 1) % 32 == 0 and h3_to + 1 - 32 >= from then
              local names, sum = {}, h3_late
              for i = 1, 32 - 1 do names[i] = encode('>I6', h3_to - 32 + i) end
              if not seek then parse, seek, retreat = lengthy() end
              for _, text in ipairs(call('HMGET', h3_key, unpack(names))) do
                local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
                sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
              end
              if sum then block = encode('>I7I7', h3_newest, sum) end
            end
            h3_to = h3_to + 1
            if h3_top < h3_to then h3_top = h3_to end
          end
          body, e, tail, h3_late = string.sub(body, 1, front), '', 0, 0
        end
        local dead
        if h3_low + 1 == from and h3_top == h3_to and from % 32 ~= 0 then -- the most frequent case.
          dead, h3_low = encode('>I6', h3_low), from
        elseif h3_low < from or h3_top > h3_to then
          -- names up to 16 chunks that no longer count, so that no script runs long (R13).
          dead = {}
          local forget = function(c)
            dead[#dead + 1] = encode('>I6', c)
            if (c + 1) % 32 == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / 32 - 1) end
          end
          while h3_low < from and #dead < 16 do
            forget(h3_low)
            h3_low = h3_low + 1
          end
          while h3_top > h3_to and #dead < 16 do
            h3_top = h3_top - 1
            forget(h3_top)
          end
        end
        -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of h3_window (R13).
        local renew
        local ends = h3_window + (h3_newest > h3_last and h3_newest or h3_last)
        -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a h3_window.
        local spare, virtually = h3_window / 4, 0
        if virtual then spare, virtually = h3_window, 549755813888 end
        local promised = (h3_lives - virtually) * 1000000 -- far out of range if the other clock set it.
        if promised < ends or promised > ends + spare + 1000000 then
          ends = ends + spare
          h3_lives = math.ceil(ends / 1000000) + virtually
          renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
        end
        local head
        local narrow = h3_newest == h3_last and h3_own < 65536 and not (h3_wide and h3_lu < h3_newest)
        if h3_low == h3_top and tail == 0 then
          if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
            head = encode('>BI7I7I5I2I3B', 5, h3_last, h3_lu, h3_lives, h3_own, h3_used, front)
          else
            head = encode('>BI7I7I7I5I7I7B', 2, h3_last, h3_newest, h3_lu, h3_lives, h3_own, h3_used, front)
          end
        elseif narrow and h3_used < 4294967296 and h3_low == from and h3_top == h3_to and h3_to - from < 65536 then
          head = encode('>BI7I7I5I2I4BBI4I6I2', 6, h3_last, h3_lu, h3_lives, h3_own, h3_used, front, tail, h3_late, from, h3_to - from)
        else
          head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, h3_last, h3_newest, h3_lu, h3_lives, h3_own, h3_used,
          h3_low, from - h3_low, h3_to - h3_low, h3_top - h3_low, h3_late, front, tail)
        end
        head = head .. body .. e
        if not name and not rest then
          call('HSET', h3_key, 'h', head)
        else
          local fields = {}
          if rest then fields = {left, rest} end
          if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
          if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', h3_to / 32 - 1), block end
          call('HSET', h3_key, 'h', head, unpack(fields))
        end
        if dead then
          if type(dead) == 'table' then call('HDEL', h3_key, unpack(dead)) else call('HDEL', h3_key, dead) end
        end
        if renew then call('PEXPIRE', h3_key, string.format('%.0f', renew)) end
      end
      h3_used = used
    end
  end
  local reply
  if full and granted == n and add == n and reset == widest then
    reply = encode('>BI7i8i8', 2, now, remaining, wait)
  else
    -- the long reply, with the time for which a denial stays the same.
    reply = encode('>BBI7i8I7i8I7I7', 0, bound, granted, remaining, now, wait, reset, full and 0 or validFor)
  end
  if states then
    -- behind the reply, the state of every limit.
    do
      reply = reply .. encode('>i8i8i8i8i8', h1_max - h1_used, h1_wait, h1_next, h1_gapwait, h1_reset)
    end do
      reply = reply .. encode('>i8i8i8i8i8', h2_max - h2_used, h2_wait, h2_next, h2_gapwait, h2_reset)
    end do
      reply = reply .. encode('>i8i8i8i8i8', h3_max - h3_used, h3_wait, h3_next, h3_gapwait, h3_reset)
    end
  end
  return reply
end
local replies, keys = {}, 0
for i = 1, #ARGV do
  local done, reply = pcall(decision, ARGV[i], keys)
  replies[i] = done and reply or failed(reply)
  keys = keys + byte(ARGV[i], 17)
end
return table.concat(replies)
