-- Decides an attempt, a peek, a probe or a record: all limits record, or none (R4 to R8, R10).
--
-- Limit by limit the history is read, the units that all grant so far are found, and the change is
-- made. The commands that store it run behind the last limit, so an error changes nothing. If a
-- limit grants less than those before it, has a block that runs, or its newest attempt is ahead
-- (R2), the limits are decided again from the first. requests.lua has the layout of a plan.

local NONE_AHEAD = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- of a state without appointments

-- find_marks returns the newest mark that does not count at an instant, and the mark of an entry of
-- that instant (R3, R9); nil if the instant is outside of the window of a Period.
local function find_marks(instant, kind, window, a, b)
  if kind == 1 and b > 0 then
    if instant < a or instant >= b then return nil end
    return a - 1, a
  end
  if kind == 1 then return instant - window, instant - instant % window end
  if kind == 0 and a > 0 then
    return instant - window, math.min(instant - instant % a + a, 2^53 - 1)
  end
  return instant - window, instant
end

-- decide returns the reply, whether units were recorded, and the instant of their use (R18); or the
-- reply that the instant is outside of the window of a Period. A settlement and an extension decide
-- a part of the limits of a request: part.places has their numbers, part.now the instant, and
-- part.feels whether blocks count.
local function decide(plan, k, op, n, _, flags, part)
  local mode, count, form = byte(plan, 1, 3)
  local plain, stated, felt = form % 2 == 1, flags % 2 == 1, not part or part.feels
  local may_begin = form % 4 > 1 and n > 0 and (op == 0 or op == 9)
  if n == 0 or op == 9 then op = 1 end
  local now, granted, full, blocked, again = part and part.now or raw, n, true, false, false
  local remaining, wait, reset, valid, bound, longest, longest_rest, states
  local patience, start -- the longest wait of an attempt that may wait, and its instant (R18)
  local full_key, full_units -- the number of the first key with too many units, and these
  if flags > 3 then patience, mode = find_patience(k), 0 end
  repeat
    remaining, wait, reset, valid, bound, longest, longest_rest = 2^53 - 1, 0, 0, 2^53 - 1, 0, 0, 0
    states, again, queue = (stated or may_begin) and {} or nil, false, nil
    full_key = nil
    for i = 1, count do
      local number = k + (part and part.places[i] or i)
      if current >= 0 then current = number end
      local key = KEYS[number]
      local kind, most, window = decode('>BI7I6', plan, 49 * i - 38)
      local interval, cost, a, b, c = 0, 0, 0, 0, 0
      if not plain then interval, cost, a, b, c = decode('>I6i8I7I7I7', plan, 49 * i - 24) end

      -- The history, and its entries that count at now (R3).
      local bucket = kind == 3 and load_bucket(key)
      local h = bucket or load(key)
      local last, block, list = h.last, h.block, h.list
      if last > now and last - raw < 1000000 then now, again = last, i > 1 end
      if block and felt and block.begin > now and block.begin - raw < 1000000 then
        now, again = block.begin, i > 1
      end
      local cut, mark = now - window, now
      if not plain and not bucket then cut, mark = find_marks(now, kind, window, a, b) end
      if not cut then
        local latest = now
        for j = i + 1, part and 0 or count do -- a history behind it may be ahead.
          current = k + j
          local head, behind = read_header(KEYS[current])
          local begin = behind and behind.begin or raw
          local newest = head and #head > 7 and decode('>I7', head, 2) or raw
          if begin > latest and begin - raw < 1000000 then latest = begin end
          if newest > latest and newest - raw < 1000000 then latest = newest end
        end
        if latest == now then return encode('>BI7', 2, now) end
        now, again = latest, true
      end
      if again then
        granted, full, blocked = n, true, false
        break
      end
      local units, first, own, newest, chunks, tail, corrected
      if bucket then
        if list then fold_bucket(bucket, now, a, b, c) end
        refill(bucket, now, a, b, c)
        last, units = bucket.last, bucket.units
      else
        if last - raw >= 1000000 then
          correct(h, now, mark)
          if list then shift(list, now - last) end
          last = now
          corrected = pack_header(now, h.first, h.promised, h.own, h.units, h.newest, h.chunks,
            h.tail)
        end
        if list then last = fold(h, now, kind, window, a, b) end
        units, first, own, newest = h.units, h.first, h.own, h.newest
        chunks, tail = h.chunks, h.tail
        if chunks and (newest <= cut or own == units) then count_chunks(chunks) end
        if newest <= cut then units = 0
        elseif first <= cut then
          local passed
          first, tail, passed = pass(chunks, tail, first, newest, cut, 2^53)
          units = units - passed
          if units < own then error('weir:state a sum of units is damaged', 0) end
        end
      end

      -- A block that runs denies everything, and nothing is recorded (R20).
      local rest = block and see_block(block, now, felt) or 0
      if rest > 0 and op ~= 2 and not blocked then
        blocked, granted, full, again = true, 0, false, i > 1
        if again then break end
      end

      -- The units that this limit grants (R5, R6). A record is not denied, but bounded (R10).
      local booked, latest = 0, last -- units ahead, and the newest attempt, also of those (R18)
      if list then booked, latest = list.booked, find_latest(list, last) end
      local wanted, room, denies = n, most - units - booked, false
      local closed = interval > 0 and now - latest < interval or rest > 0
      if cost ~= 0 and n > 0 then wanted = cost > 0 and cost or 0 end -- R7
      if op == 2 or start then
        local more = mode == 2 and not bucket and math.min(wanted, most) or wanted
        local bound_here = bucket and bound_units(a, b) or 2^51 - 1
        if not full_key and units + booked + more > bound_here then
          full_key, full_units = number, units + booked
        end
        if full_key and i == count then -- no limit behind it can move now to where they have left
          if current >= 0 then current = full_key end
          error(string.format('weir:overflow %d %.0f', full_key - k, full_units), 0)
        end
      elseif wanted > room or closed then
        denies = mode ~= 1 or closed or room <= 0
        local less = denies and 0 or math.min(granted, room)
        again = less < granted and i > 1
        full, granted = false, less
        if again then break end
      end

      -- The change: units at now (R7). A mark never runs back, and an open window takes all units.
      local more = mode == 2 and not blocked and n or granted
      if cost ~= 0 and more > 0 then more = cost > 0 and cost or 0 end
      local records = op ~= 1 and more > 0 and not full_key
      if start and not full_key then
        list = book(h, start, more)
        booked, last = list.booked, now
        latest = find_latest(list)
        if bucket then bucket.last = now
        elseif units == 0 then
          tail = ''
          if chunks then chunks.from = chunks.to end
        end
      elseif records then
        last = now
        if booked == 0 then latest = now end
        if list then list.writes, list.final = true, nil end
        if bucket then
          pour(bucket, now, more, op == 0 and mode == 2 and most)
          units = bucket.units
        else
          if mode == 2 then more = math.min(more, most) end
          if units == 0 then
            tail, first, newest, own = '', mark, mark, more
            if chunks then chunks.from = chunks.to end
          elseif mark <= newest or kind == 2 then own = own + more
          else
            if chunks then chunks.late = chunks.late + own end
            tail, newest, own = tail .. encode_entry(mark - newest, own), mark, more
          end
          units = units + more
          if units > most and mode == 2 then -- the newest entries that reach max are kept (R6).
            units, own = units - math.max(own - most, 0), math.min(own, most)
            local spare, passed = units - most, 0
            if spare >= 0 and first < newest then
              first, tail, passed = pass(chunks, tail, first, newest, 2^53, spare)
              units = units - passed
              if units < own then error('weir:state a sum of units is damaged', 0) end
            end
          end
        end
      end

      -- The waits after it (R8): until wanted units fit, until the next unit leaves, until none
      -- counts, and until the interval is over.
      local left, fits, next, empty, pause = most - units - booked, 0, 0, 0, 0
      if interval > 0 then pause = math.max(0, latest - now + interval) end
      if bucket and booked > 0 then
        fits, next, empty = wait_for_bucket(bucket, now, wanted, most, a, b, c)
      elseif bucket then fits, next, empty = find_waits(bucket, wanted, most, a, b, c)
      elseif units > 0 then
        next, empty = first - cut, newest - cut
        local need = wanted - left
        if need == 1 then fits = next
        elseif need > 0 and wanted <= most then
          local copy = chunks and { key = key, from = chunks.from, to = chunks.to,
            skip = chunks.skip, text = chunks.text, made = chunks.made }
          fits = pass(copy, tail, first, newest, 2^53, need - 1) - cut
        end
        if kind == 1 and b > 0 then
          next, empty = b - now, b - now
          if fits > 0 then fits = next end
        end
      end
      if booked > 0 and not bucket then
        local need, leave = wanted - left - units, nil
        local soonest, final
        soonest, final, leave = find_leaves(list, now, newest, need, plan, i, kind, window, a, b)
        if leave then fits = leave end
        if units == 0 then next = soonest end
        empty = final
      end
      if fits < pause then fits = pause end
      if not full then
        if next > 0 and next < valid then valid = next end
        if pause > 0 and pause < valid then valid = pause end
      end
      if rest > 0 then
        fits, next, empty = math.max(fits, rest), math.max(next, rest), math.max(empty, rest)
        longest_rest, valid = math.max(longest_rest, rest), math.min(valid, rest)
      end
      if wanted > most then fits = 2^53 end

      -- The answer of all limits.
      if left < remaining then remaining = left end
      if fits > wait then wait = fits end
      if empty > reset then reset = empty end
      if not full then
        if granted > 0 then
          if bound == 0 and room == granted then bound = i end
        elseif denies and (bound == 0 or fits > longest) then bound, longest = i, fits
        end
      end
      if states then
        states[i] = { left = left, fits = fits, next = next, pause = pause, empty = empty,
          rest = rest, denies = denies,
          ahead = booked > 0 and encode('>i8i8', booked, latest - now) or NONE_AHEAD }
      end

      -- The commands that store it. A recording by the server's clock drops a block that is over:
      -- its newest attempt then lies behind it, so a clock that steps back does not need it (R2).
      local waits = i < count or may_begin or patience
      local kept = block
      if block and records and felt and rest == 0 and not given then kept = nil end
      if bucket and (records or bucket.changed and op ~= 1) then
        store_bucket(waits, bucket, now, most, interval, kept)
      elseif records then
        local ends, ttl = newest + window, nil
        if not plain then ends = math.max(b > 0 and b or ends, now + interval, raw) end
        if list then ends = math.max(ends, now + empty, latest + interval, raw) end
        local promised
        promised, ttl = renew(h.promised, ends, window)
        if #tail > CHUNK then
          chunks = add_chunk(chunks, key, tail, newest, units - own)
          tail = ''
        end
        local head = pack_header(last, first, promised, own, units, newest, chunks, tail)
        write(waits, key, head, chunks, ttl, kept)
      elseif corrected and op ~= 1 then
        if chunks then chunks.from = chunks.stored end
        write(waits, key, corrected, chunks, nil, kept)
      elseif block and block.moved and op ~= 1 then write(waits, key, block.head, nil, nil, kept)
      end
    end
    local waits = patience and not again and granted == 0 and not full and not blocked
    if waits and wait <= patience and now + wait < 2^53 then -- the attempt is an appointment (R18).
      start, granted, full, again = now + wait, n, true, true
    end
  until not again

  local first_byte = 0
  if may_begin and not full and granted == 0 and not blocked then
    local most, least = begin_blocks(plan, k, bound, states, now)
    if most then
      first_byte, longest_rest = 4, most
      wait, reset, valid = math.max(wait, most), math.max(reset, most), math.min(valid, least)
    end
  end
  for i = 1, queue and #queue or 0 do write(false, unpack(queue[i], 1, 5)) end
  if full then valid = start and start - now or 0 end
  if longest_rest > 0 then remaining = math.min(remaining, 0) end
  if wait == 2^53 then wait = -1 end
  local reply = encode('>BBI7i8I7i8I7I7I7', first_byte, bound, granted, remaining, now, wait, reset,
    valid, longest_rest)
  for i = 1, stated and count or 0 do
    local s = states[i]
    local fits = s.fits == 2^53 and -1 or s.fits
    reply = reply .. encode('>i8i8i8i8i8i8', s.left, fits, s.next, s.pause, s.empty, s.rest) ..
      s.ahead
  end
  return reply, op ~= 1 and (mode == 2 and not blocked or granted > 0), start or now
end
