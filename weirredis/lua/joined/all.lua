-- Shared by the files that follow in a joined script: functions of the server, and the request that
-- is being decided.
--
-- Units are whole numbers up to 2^51 - 1; instants and spans are whole microseconds up to
-- 2^53 - 1. In packed texts all numbers are big-endian: B is one byte, I7 seven bytes, i8 eight
-- bytes with a sign. Rules such as R7 are those of docs/semantics.md.
local call, encode, decode = redis.call, struct.pack, struct.unpack
local byte, sub = string.byte, string.sub
local raw, given -- the instant of the request, and whether the caller gave it (else: TIME)
local current    -- index in KEYS of the key that is read, for errors; -1 after the first write

-- The layout of a history: the entries of one limit for one key. It is a hash.
--
-- An entry is the units of one instant. Its mark is the instant that decides when they leave: that
-- of the grant itself, the end of its cell, or the begin of its window (R3, R9).
--
-- Field h is its header. bucket.lua has that of a bucket; other histories have one of two forms:
--   1 B, last I7, first I7, promised I6, own I2, units I4, tail: the newest entry is of the
--     instant last.
--   2 B, last I7, first I7, promised I6, own I7, units I7, newest I7, from I6, count I4, skip I2,
--     late I7, tail.
--     last      instant of the newest attempt (R2, R5)
--     first     mark of the oldest entry
--     promised  millisecond until which the key lives at least; 0 = not known (R13)
--     newest    mark of the newest entry; own: its units, above 0 if there is an entry
--     units     of all entries
--     tail      the older entries that are in no chunk: length B, entries; late: their units
--     from      number of the oldest chunk; its oldest entry begins at byte skip
--     count     number of chunks
-- A history with appointments (R18) has these before its header (appointments.lua): 5 B, and more.
-- One with a block (R20) has 4 B, begin I7, length I7 before all of this; the header may be missing
-- then. The key lives at least as long as the block, also beyond promised.
--
-- The other fields are chunks, by their numbers: mark I7 of the next newer entry, the units I7 of
-- the chunk, length B of its entries, its entries, oldest first. number.lua has their coding.
local SHORT, LONG = '>BI7I7I6I2I4Bc0', '>BI7I7I6I7I7I7I6I4I2I7Bc0' -- the two forms
local CHUNK = 96 -- bytes of entries in a chunk; a longer tail becomes one

-- renew returns the promised end of a key that is needed until the instant ends, and a new time to
-- live in milliseconds, or nil if the present one is long enough (R13). A promise exceeds the need
-- by a quarter of the span. So most recordings set no time to live. The key lives a second longer,
-- because the clock may step back (R2). Real time may pass more slowly than instants that callers
-- give. With these 2^44 is added to the promise, and the key lives a span and two hours longer.
local function renew(promised, ends, span)
  local spare, mark, longer = span / 4000, 0, 1000
  if given then spare, mark, longer = span / 1000, 2^44, 7200000 end
  local need = ends / 1000 + mark
  if promised >= need and promised <= need + spare + 1001 then return promised end
  promised = math.ceil(need + spare)
  return promised, promised - mark - math.floor(raw / 1000) + longer
end

-- The requests of a call are decided in their order at one reading of the clock (R1). An error of
-- one stops no other.
--
-- KEYS     for each request the history of each of its limits, then the key of its operation if it
--          has an id.
-- ARGV[1]  for each request 24 bytes: number of its plan B (1 is ARGV[2]); operation B: 0 attempt,
--          1 peek, 2 record, 3 refund, 4 count, 6 settle, 7 extend, 8 block, 9 probe; flags B: 1
--          states are wanted, 2 it has an id, 4 it may wait; instant I7, above 2^53 the server's
--          clock; n I7, units: of a settle those really used, above 2^53 all; and a number I7:
--            attempt  life of the reservation that it opens, 0 none
--            refund   instant of the grant, above 2^53 the oldest entries
--            count    span
--            extend   units that the reservation had before, above 2^53 unknown
--            block    length, 0 ends the blocks
--            others   0
-- ARGV[w]  behind the plans, if an attempt may wait: for each of these attempts the number of the
--          keys of the requests before it I2, and its longest wait I6 (R18).
-- ARGV[p]  a plan: mode B: 0 all or nothing, 1 partial, 2 denied attempts count; number of limits
--          B; form B: 1 if the mode is 0 or 1, and all limits are of kind 0 with a max above 0,
--          without interval, cost and cells; 2 more if a limit has a block; and 4 more if the
--          windows of Periods that follow are given; time I7 for which
--          an operation is remembered. Then for each limit 49 bytes: kind B: 0 rolling or
--          concurrency, 1 fixed, 2 fixed from the first unit, 3 bucket; max I7; window I6; minimum
--          interval I6; cost i8: units of any attempt, 0 its own number, -1 a peek; and numbers a,
--          b and c I7:
--            rolling  width of a cell or 0, 0, 1 for holds or 0
--            fixed    0, 0, 0; or of a Period begin and end of the window around the client's
--                     clock, 0
--            bucket   one unit flows in every a + b/c microseconds, in lowest terms; max is the
--                     capacity
--          With a form of 2 or 3 follows the block of each limit I6: the time for which a denial
--          by it blocks its history, 0 not (R20). Then for rules that join calls: for each call
--          the number of its limits B, and their numbers B from 1. Each of these calls begins a
--          block of its own. With 4 in the form there are at the end, for each limit, the number of
--          windows I2, and the end of each I7: those from the window of now on, or none without a
--          Period; and the size of all this I4.
-- reply    for each request, one after the other:
--          0 B, binding limit B (0 none), granted I7, remaining i8, instant I7, wait i8 (-1
--          never), reset I7, valid I7 (of a grant in full the time until its use may begin, R18;
--          else the time for which a denial stays the same if nothing is written), rest of the
--          longest block I7; then, if wanted, the state of each limit:
--          remaining i8, wait i8, the times until the next unit is there i8, until the interval is
--          over i8, until no unit counts i8, the rest of its block i8, its units ahead i8 and the
--          time until the last appointment i8. The remaining units of a state are its room, also
--          during its block. A refund, a count, a settle and a block use granted and instant.
--          1 B: an operation that is remembered: its reply from the binding limit to the rest of
--          the block, and that limit: length B, its name, its 49 bytes as in the plan, and the
--          number of limits B; or length 0.
--          2 B, instant I7: nothing is decided, because the instant is outside of the window of a
--          Period.
--          3 B, number of the key among those of the request I2, length I2, text: an error;
--          nothing is written, unless the text begins with weir:half. If the script lacks
--          appointments.lua, or windows of a Period, the requests behind it have the same reply:
--          they are not decided.
--          4 B: as 0, but a block began or was set by this request.
--          Replies 0, 1 and 4 to an attempt that opens a reservation, a settle and an extend end
--          with the reservation: its units I7 (0 none), the end of its life I7, the instant of its
--          hold i8 (-1 none), the units of its settlement i8 (-1 open).
local replies, k, clock = {}, 0, nil -- k: the number of keys of the requests before
local decide_plain -- plain.lua has it; the scripts without that file have none
local left = 0 -- the number of a request that decide_plain has left to decide_other

-- answer decides the requests that have no reply yet. Without decide_other it stops at the first
-- one that decide_plain leaves, or at which it fails before a write.
local function answer(decide_other)
  local known, limits
  for j = #replies + 1, #ARGV[1] / 24 do
    local number, op, flags, n, from
    number, op, flags, raw, n, from = decode('>BBBI7I7I7', ARGV[1], 24 * j - 23)
    local plan = ARGV[number + 1]
    if plan ~= known then known, limits = plan, byte(plan, 2) end
    given = raw < 2^53
    if not given then
      if not clock then
        local time = call('TIME')
        clock = time[1] * 1000000 + time[2]
      end
      raw = clock
    end
    current = k
    local fine, reply
    if decide_plain and j ~= left then
      fine, reply = pcall(decide_plain, plan, k, n, limits, 1, true)
    end
    if not reply or not fine and current >= 0 then
      if not decide_other then
        left = j
        return
      end
      fine, reply = pcall(decide_other, plan, k, op, n, from, flags)
    end
    if not fine then
      local text = type(reply) == 'table' and reply.err or tostring(reply)
      text = sub((current < 0 and 'weir:half ' or '') .. text, 1, 1000)
      reply = encode('>BI2I2', 3, math.max(current - k, 0), #text) .. text
      if text == 'weir:state version 5' or sub(text, 1, 13) == 'weir:windows ' then
        for behind = j, #ARGV[1] / 24 do replies[behind] = reply end
        return
      end
    end
    replies[j] = reply
    k = k + limits + (flags % 4 >= 2 and 1 or 0)
  end
end

-- The coding of the entries in a history.
--
-- An entry is the gap to the next entry, in microseconds between their marks, and its units. The
-- first bit of a gap is 1 if units follow; otherwise it is one unit. The next bits give the size:
-- 0 of 2 bytes, 10 of 3, 110 of 4, 1110 of 5, and 1111 of 8 bytes, whose last 7 are the number.
-- Units are coded as a gap without further units.

-- decode_number returns the number at text[i], whether its first bit is 1, and the place behind it.
local function decode_number(text, i)
  local first, second, third, fourth, fifth = byte(text, i, i + 4)
  local flagged = first >= 128
  if flagged then first = first - 128 end
  if first < 64 then return first * 2^8 + second, flagged, i + 2 end
  if first < 96 then return (first - 64) * 2^16 + second * 2^8 + third, flagged, i + 3 end
  if first < 112 then
    return (first - 96) * 2^24 + second * 2^16 + third * 2^8 + fourth, flagged, i + 4
  end
  if first < 120 then
    local high = (first - 112) * 2^32 + second * 2^24
    return high + third * 2^16 + fourth * 2^8 + fifth, flagged, i + 5
  end
  return decode('>I7', text, i + 1), flagged, i + 8
end

-- encode_entry returns the bytes of an entry.
local function encode_entry(gap, units)
  local text
  if gap < 2^14 then text = encode('>I2', gap)
  elseif gap < 2^21 then text = encode('>I3', gap + 2^22)
  elseif gap < 2^28 then text = encode('>I4', gap + 2^29 + 2^30)
  elseif gap < 2^35 then text = encode('>I5', gap + 2^36 + 2^37 + 2^38)
  else text = encode('>BI7', 120, gap)
  end
  if units == 1 then return text end
  return string.char(byte(text) + 128) .. sub(text, 2) .. encode_entry(units, 1)
end

-- Reading and writing the hash of a history or a bucket. layout.lua has its layout.
--
-- A block (R20) is a table:
--   begin, length: as in the layout
--   head   the header behind it, '' for none
--   rest   time until it is over, or 0; ends: the instant of that
--   moved  whether its begin was corrected (R2)

-- read_header returns the header of a history without its block, or nil, and its block, or nil.
local function read_header(key)
  local head = call('HGET', key, 'h')
  if not head or byte(head) ~= 4 then return head end
  if #head < 15 then error('weir:state the header is cut off', 0) end
  local _, begin, length = decode('>BI7I7', head)
  if begin >= 2^53 or length >= 2^53 then error('weir:state the header is damaged', 0) end
  head = sub(head, 16)
  return #head > 0 and head, { begin = begin, length = length, head = head }
end

-- see_block computes the rest of a block at now, and returns it; or 0 if blocks do not count for
-- the request (felt is false). A block that begins a second or more ahead begins now (R2).
local function see_block(block, now, felt)
  if felt and block.begin - raw >= 1000000 then block.begin, block.moved = now, true end
  block.rest = math.max(0, block.length - (now - block.begin))
  block.ends = now + block.rest
  return felt and block.rest or 0
end

-- The writes that wait until all limits have decided; nil = none.
local queue

-- write stores a header with its block, the changed chunks and a new time to live; if waits is
-- true, after all limits have decided. It deletes the chunks whose units have all left, and those
-- after the last one. The key lives at least as long as a block runs.
local function write(waits, key, head, chunks, ttl, block)
  if waits then
    queue = queue or {}
    queue[#queue + 1] = { key, head, chunks, ttl, block }
    return
  end
  if chunks and (chunks.from > chunks.stored or chunks.top) then
    local dead = {}
    for number = chunks.stored, chunks.from - 1 do dead[#dead + 1] = number end
    for number = chunks.to, (chunks.top or 0) - 1 do dead[#dead + 1] = number end
    for i = 1, #dead, 1000 do
      call('HDEL', key, unpack(dead, i, math.min(i + 999, #dead)))
      current = -1
    end
  end
  if block then head = encode('>BI7I7', 4, block.begin, block.length) .. head end
  local changed = chunks and chunks.changed
  if not changed then call('HSET', key, 'h', head)
  else
    for i = 1, #changed, 200 do
      call('HSET', key, 'h', head, unpack(changed, i, math.min(i + 199, #changed)))
      current = -1
    end
  end
  current = -1
  if ttl then call('PEXPIRE', key, ttl) end
  if block and block.rest > 0 then
    local _, least = renew(0, block.ends, 0)
    if call('PTTL', key) < least then call('PEXPIRE', key, least) end
  end
end

-- Reading a history, passing over its oldest entries, and changing its chunks. layout.lua has the
-- layout of what is stored. In this script a history is a table:
--   key
--   last, first, promised, own, units, newest, tail: as in the layout
--   chunks  a table, or nil for a history without:
--     key, skip, late: as in the layout
--     from, to  the chunks are from .. to - 1
--     text      of chunk from, nil until it is read
--     stored    number of the oldest chunk on the server
--     top       number after the newest chunk on the server; nil if that is to
--     changed   chunks to be stored, number and text in turns; nil for none
--     made      chunks that are not stored yet, by number, with first and count (appointments.lua)
--   block   as in store.lua, or nil for a history without
--   list    of appointments (appointments.lua), or nil

-- load returns a history as it is stored. A mark is less than a cell of 2^48 ahead of its instant.
local function load(key)
  local head, block = read_header(key)
  if not head then
    return { key = key, last = -2^53, first = -2^53, promised = 0, own = 0, units = 0,
      newest = -2^53, tail = '', chunks = nil, block = block }
  end
  local form = byte(head)
  local size = form == 1 and 28 or 62
  if form and form ~= 1 and form ~= 2 then error('weir:state version ' .. form, 0) end
  if #head < size or #head ~= size + byte(head, size) then
    error('weir:state the header is cut off', 0)
  end
  local last, first, promised, own, units, newest, chunks, tail, _
  local late = 0
  if form == 1 then
    _, last, first, promised, own, units, tail = decode(SHORT, head)
    newest = last
    if units == 0 then newest, first = -2^53, -2^53 end
  else
    local from, count, skip
    _, last, first, promised, own, units, newest, from, count, skip, late, tail =
      decode(LONG, head)
    if count > 0 then
      chunks = { key = key, stored = from, from = from, to = from + count, skip = skip,
        late = late, text = false, changed = false }
    end
  end
  if first > newest or newest >= last + 2^48 or last >= 2^53 or own + late > units
    or units > 2^52 or own == 0 and units > 0 then
    error('weir:state the header is damaged', 0)
  end
  return { key = key, last = last, first = first, promised = promised, own = own, units = units,
    newest = newest, tail = tail, chunks = chunks, block = block }
end

-- read_chunk returns the text of a chunk, the mark behind it and its units.
local function read_chunk(chunks, number)
  local text = chunks.made and chunks.made[number] or call('HGET', chunks.key, number)
  if not text or #text < 16 or #text ~= 15 + byte(text, 15) then
    error('weir:state a chunk is missing or cut off', 0)
  end
  return text, decode('>I7I7', text)
end

-- pass passes over the oldest entries: those with marks up to stop that have at most `most` units
-- together, and all without units. It returns the mark of the next entry, the tail that is left,
-- and the units passed. chunks then begins at the next entry. The entries of a chunk that is passed
-- whole are not decoded: its first bytes have its units.
local function pass(chunks, tail, mark, newest, stop, most)
  local passed, text, i = 0, tail, 1
  local inside = chunks and chunks.from < chunks.to
  if inside then text, i = chunks.text, chunks.skip end
  while true do
    if not text then
      local read, behind, sum = read_chunk(chunks, chunks.from)
      text = read
      if i == 16 and (sum == 0 or behind <= stop) and passed + sum <= most then
        mark, passed, i = behind, passed + sum, #text + 1
      end
    elseif i <= #text then
      if mark > stop and byte(text, i) < 128 then break end
      local gap, more, after = decode_number(text, i)
      local n = 1
      if more then n, more, after = decode_number(text, after) end
      if n > 0 and (mark > stop or passed + n > most) then break end
      mark, passed, i = mark + gap, passed + n, after
    elseif inside then
      chunks.from = chunks.from + 1
      inside = chunks.from < chunks.to
      if inside then text, i = false, 16 else text, i = tail, 1 end
    else break
    end
  end
  if mark > newest or (mark == newest) ~= (not inside and i > #tail) then
    error('weir:state an entry is missing', 0)
  end
  if inside then chunks.text, chunks.skip = text, i
  elseif i > 1 then tail = sub(tail, i)
  end
  return mark, tail, passed
end

-- pack_header returns the header of a history.
local function pack_header(last, first, promised, own, units, newest, chunks, tail)
  if units == 0 then return encode(SHORT, 1, last, 0, promised, 0, 0, 0, '') end
  local from, count, skip, late = 0, 0, 16, units - own
  if chunks and chunks.from < chunks.to then
    from, count, skip, late = chunks.from, chunks.to - chunks.from, chunks.skip, chunks.late
  elseif newest == last and own < 2^16 and units < 2^32 then
    return encode(SHORT, 1, last, first, promised, own, units, #tail, tail)
  end
  return encode(LONG, 2, last, first, promised, own, units, newest, from, count, skip, late,
    #tail, tail)
end

-- count_chunks raises an error unless there are as many chunks as the header says. Otherwise a
-- write would delete chunks that nothing has read.
local function count_chunks(chunks)
  local stored = (chunks.top or chunks.to) - chunks.stored
  if chunks.made then stored = stored - chunks.made.count end
  if call('HLEN', chunks.key) <= stored then error('weir:state a chunk is missing', 0) end
end

-- add_chunk makes the tail a chunk, and returns the chunks.
local function add_chunk(chunks, key, tail, newest, late)
  chunks = chunks or { key = key, stored = 0, from = 0, to = 0, skip = 16, late = late }
  if chunks.from == chunks.to then chunks.skip, chunks.late = 16, late end
  chunks.changed = { chunks.to, encode('>I7I7B', newest, chunks.late, #tail) .. tail }
  chunks.to, chunks.late = chunks.to + 1, 0
  return chunks
end

-- A corrected clock (R2): the newest attempt of a history is ahead by a second or more.

-- retreat takes the newest entry off a history, and the older ones with marks above most. The last
-- entry before them that has units becomes the newest. It returns the units of those taken.
local function retreat(h, most)
  local chunks = h.chunks or { from = 0, to = 0 }
  local text, i, number, behind, taken = h.tail, 1, chunks.to, h.newest, h.own

  -- read returns the gap and the units of the entry at text[j], and the place behind it.
  local function read(j)
    local gap, more, after = decode_number(text, j)
    if not more then return gap, 1, after end
    local units
    units, more, after = decode_number(text, after)
    return gap, units, after
  end

  h.newest, h.own = -2^53, 0
  while true do
    -- The last entry of this text with units and a mark up to most.
    local mark, sum, j = behind, 0, i
    while j <= #text do
      local gap, units, after = read(j)
      mark, sum, j = mark - gap, sum + units, after
    end
    local before, kept, found = 0, 0, i
    j = i
    while j <= #text and mark <= most do
      local gap, units, after = read(j)
      if units > 0 then
        h.newest, h.own, found = mark, units, j
        before, kept = kept, kept + units
      end
      mark, j = mark + gap, after
    end
    taken = taken + sum - kept
    if h.own > 0 or number == chunks.from then
      h.tail = sub(text, i, found - 1)
      if number < chunks.to then chunks.top, chunks.to = chunks.top or chunks.to, number end
      chunks.late = before
      return taken
    end

    -- The chunk before it. It is not read if all of its entries are later: the heads show that.
    local begins
    repeat
      local units, _
      number = number - 1
      text, behind, units = read_chunk(chunks, number)
      i, begins = chunks.skip, -2^53
      if number > chunks.from then
        i = 16
        _, begins = read_chunk(chunks, number - 1)
      end
      if begins > most then taken = taken + units end
    until begins <= most
  end
end

-- correct makes the entries of the future one entry of now, of at most 2^51 - 1 units, and the
-- newest attempt one of now.
local function correct(h, now, mark)
  h.last = now
  if h.newest <= mark then return end
  local future = retreat(h, mark)
  local kept = h.units - future
  if h.newest == mark then kept, future = kept - h.own, future + h.own
  elseif h.own > 0 then
    h.tail = h.tail .. encode_entry(mark - h.newest, h.own)
    if h.chunks then h.chunks.late = h.chunks.late + h.own end
  else h.first = mark
  end
  h.newest, h.own = mark, math.min(future, 2^51 - 1)
  h.units = kept + h.own
  if h.units < h.own or h.units > 2^52 then error('weir:state the header is damaged', 0) end
end

-- Begins and ends blocks (R20). layout.lua has their layout.

-- begin_blocks begins the blocks of a denial at now: that of the binding limit, or of joined calls
-- those of the limits that denied each of them. states are those of decide; a limit that begins its
-- block has that in its state, too. The blocks wait with the other writes. It returns the lengths
-- of the longest and of the shortest block, or nil if none begins.
local function begin_blocks(plan, k, bound, states, now)
  local count = byte(plan, 2)
  local longest, shortest

  local function begin(i)
    local length = decode('>I6', plan, 49 * count + 6 * i + 5)
    if length == 0 then return end
    longest, shortest = math.max(longest or 0, length), math.min(shortest or length, length)
    local state = states[i]
    state.fits, state.rest = math.max(state.fits, length), length
    state.next, state.empty = math.max(state.next, length), math.max(state.empty, length)
    local key, write = KEYS[k + i], nil
    queue = queue or {}
    for j = 1, #queue do
      if queue[j][1] == key then write = queue[j] end
    end
    if not write then
      write = { key, read_header(key) or '' }
      queue[#queue + 1] = write
    end
    write[5] = { begin = now, length = length, rest = length, ends = now + length }
  end

  local place, stop = 55 * count + 11, #plan
  if byte(plan, 3) > 3 then stop = stop - decode('>I4', plan, stop - 3) end
  if place > stop then begin(bound) end
  while place <= stop do
    local size, denier = byte(plan, place), nil
    for j = place + 1, place + size do
      local i = byte(plan, j)
      local state = states[i]
      if state.denies and (not denier or state.fits > states[denier].fits) then denier = i end
    end
    if denier then begin(denier) end
    place = place + size + 1
  end
  return longest, shortest
end

-- advance returns an instant if it is ahead of now, but less than a second ahead of the clock (R2);
-- otherwise now.
local function advance(now, instant)
  if instant > now and instant - raw < 1000000 then return instant end
  return now
end

-- block blocks all histories of a request for a time from now, or until the end of a running block
-- if that is later. A time of 0 ends the blocks.
local function block(plan, k, length)
  local count, longest = byte(plan, 2), 0
  local now, heads, blocks = raw, {}, {}
  for i = 1, count do
    current = k + i
    heads[i], blocks[i] = read_header(KEYS[current])
    local form = heads[i] and byte(heads[i]) or 1
    if form > 3 then error('weir:state version ' .. form, 0) end
    if blocks[i] then now = advance(now, blocks[i].begin) end
    if heads[i] and #heads[i] > 7 then now = advance(now, (decode('>I7', heads[i], 2))) end
  end
  for i = 1, count do
    local key, was, head = KEYS[k + i], blocks[i], heads[i]
    if length > 0 then
      local rest = math.max(length, was and see_block(was, now, true) or 0)
      write(false, key, head or '', nil, nil,
        { begin = now, length = rest, rest = rest, ends = now + rest })
      longest = math.max(longest, rest)
    elseif was and head then write(false, key, head)
    elseif was then
      call('HDEL', key, 'h')
      current = -1
    end
  end
  return encode('>BBI7i8I7i8I7I7I7', length > 0 and 4 or 0, 0, 0, 0, now, 0, longest, 0, longest)
end

-- A bucket (R16): units flow in at a rate of one in every a + b/c microseconds.
--
-- Field h of its hash is 3 B, last I7, promised I6, debt I7, rest I7, since I7, a I7, b I7, c I7:
--   last, promised  as in layout.lua
--   debt    time until the bucket is full, as of last: microseconds, and rest, a numerator over c
--   since   when units were last taken from a full bucket, or its rate a + b/c changed
--
-- In work, a bucket is a table with these fields, as of now, and
--   key
--   ahead    time until since, if that is in the future, or 0
--   units    the units that are missing
--   changed  whether a correction of the clock (R2) or another rate (R12) is to be stored
--   block    as in history.lua

-- compute_inflow returns the time in which n units flow in: microseconds and a numerator over c.
local function compute_inflow(n, a, b, c)
  local rest = n * b
  local left = rest % c
  return n * a + (rest - left) / c, left
end

-- exceeds returns the time by which debt + rest exceeds time + part, rounded up; below 1 if it
-- does not.
local function exceeds(debt, rest, time, part) return debt - time + (rest > part and 1 or 0) end

-- bound_units returns the most units whose inflow is exact.
local function bound_units(a, b) return math.floor((2^51 - 1) / (b > a and b or a + 1)) end

-- count_missing returns the units that flow in during a time, rounded up. The estimate is a few
-- units off.
local function count_missing(debt, rest, a, b, c)
  if debt < 0 or debt == 0 and rest == 0 then return 0 end
  local n, rate = math.ceil((debt + rest / c) / (a + b / c)), b > a and b or a + 1
  if n * rate > 2^51 - 1 then n = bound_units(a, b) end
  while n > 0 do
    local time, part = compute_inflow(n - 1, a, b, c)
    if debt > time or debt == time and rest > part then break end
    n = n - 1
  end
  while (n + 1) * rate <= 2^51 - 1 do
    local time, part = compute_inflow(n, a, b, c)
    if debt < time or debt == time and rest <= part then break end
    n = n + 1
  end
  return n
end

-- load_bucket returns a bucket as it is stored.
local function load_bucket(key)
  local head, block = read_header(key)
  if not head then
    return { key = key, last = -2^53, promised = 0, debt = 0, rest = 0, block = block }
  end
  if head ~= '' and byte(head) ~= 3 then error('weir:state version ' .. byte(head), 0) end
  if #head ~= 56 then error('weir:state the header is cut off', 0) end
  local _, last, promised, debt, rest, since, a, b, c = decode('>BI7I6I7I7I7I7I7I7', head)
  local early = last < 2^53 and debt < 2^53 and since < 2^53 and a < 2^53 and c < 2^53
  if not early or rest >= c or b >= c or a + b == 0 then
    error('weir:state the header is damaged', 0)
  end
  return { key = key, last = last, promised = promised, debt = debt, rest = rest, since = since,
    a = a, b = b, c = c, ahead = 0, units = 0, changed = false, block = block }
end

-- refill moves a bucket to now, under a rate.
local function refill(bucket, now, a, b, c)
  if not bucket.since then -- a new bucket
    bucket.since, bucket.a, bucket.b, bucket.c = now, a, b, c
  end
  local debt, rest, since = bucket.debt, bucket.rest, bucket.since
  bucket.changed = bucket.last - raw >= 1000000
  if bucket.changed then -- as much is missing as at the newest attempt.
    debt = debt - math.max(since - bucket.last, 0)
    if debt < 0 then debt, rest = 0, 0 end
    bucket.last, since = now, math.min(since, now)
  elseif bucket.last > -2^53 then debt = debt - (now - bucket.last)
  end
  local ahead = since > now and since - now or 0
  if debt < ahead or debt == ahead and rest == 0 then debt, rest, since = ahead, 0, now + ahead end
  if bucket.a ~= a or bucket.b ~= b or bucket.c ~= c then
    -- whole missing units stay, and the time that the next one has waited, up to a whole unit.
    local units = count_missing(debt - ahead, rest, bucket.a, bucket.b, bucket.c)
    local time, part = compute_inflow(units, bucket.a, bucket.b, bucket.c)
    local waited = exceeds(time, part, debt - ahead, rest)
    bucket.a, bucket.b, bucket.c, bucket.changed = a, b, c, true
    units = math.min(units, bound_units(a, b))
    if units > 0 and exceeds(a, b, waited, 0) < 1 then units, waited = units - 1, 0 end
    debt, rest = compute_inflow(units, a, b, c)
    debt, since, ahead = debt - waited, now, 0
  end
  bucket.debt, bucket.rest, bucket.since, bucket.ahead = debt, rest, since, ahead
  bucket.units = count_missing(debt - ahead, rest, a, b, c)
end

-- pour takes units out of a bucket at now. With most, the capacity, it takes no more than are left,
-- as a denied attempt that counts does.
local function pour(bucket, now, units, most)
  local debt, rest, a, b, c = bucket.debt, bucket.rest, bucket.a, bucket.b, bucket.c
  if most and units > most - bucket.units then
    local time, part = compute_inflow(most, a, b, c)
    time = time + bucket.ahead
    if exceeds(time, part, debt, rest) > 0 then debt, rest = time, part end
    bucket.units = count_missing(debt - bucket.ahead, rest, a, b, c)
  else
    local time, part = compute_inflow(units, a, b, c)
    debt, rest = debt + time, rest + part
    if rest >= c then debt, rest = debt + 1, rest - c end
    bucket.units = bucket.units + units -- the inflow is exact.
  end
  bucket.debt, bucket.rest, bucket.last = debt, rest, now
end

-- find_waits returns the times until units fit, until the next unit is there, and until the
-- bucket is full (R8).
local function find_waits(bucket, units, most, a, b, c)
  local debt, rest, missed = bucket.debt, bucket.rest, bucket.units
  local fits, next, empty = 0, 0, 0
  if units <= most and units > most - missed then
    fits = exceeds(debt, rest, compute_inflow(most - units, a, b, c))
  end
  if missed > 0 then
    next = fits
    if units + missed ~= most + 1 then
      next = exceeds(debt, rest, compute_inflow(missed - 1, a, b, c))
    end
    empty = rest > 0 and debt + 1 or debt
  end
  return fits, next, empty
end

-- store_bucket writes a bucket of most units at now. Its key lives until the bucket is full, and at
-- least an interval after its newest attempt. Its debt is stored as of that attempt.
local function store_bucket(waits, bucket, now, most, interval, block)
  local span = compute_inflow(most, bucket.a, bucket.b, bucket.c) + 1
  local ends = math.max(now + span, now + 1 + bucket.debt, bucket.last + interval, raw)
  local promised, ttl = renew(bucket.promised, ends, span)
  local debt = bucket.debt + (now - bucket.last)
  if debt >= 2^53 then error('weir:state the header is damaged', 0) end
  write(waits, bucket.key, encode('>BI7I6I7I7I7I7I7I7', 3, bucket.last, promised, debt,
    bucket.rest, bucket.since, bucket.a, bucket.b, bucket.c), nil, ttl, block)
end

-- Appointments (R18): units that begin at an instant ahead of the newest decision of a history.
--
-- They stand in front of the header of a history or a bucket, behind a block: 5 B, units I7 of all,
-- number I4, and for each its instant I7 and its units I7. The instants rise. If 2^31 is added to
-- the number, the bucket as it is at the last instant follows: debt I7, rest I7 and since I7, as in
-- bucket.lua. Without it, each caller in a long line would walk through the line. A script without
-- this file cannot read such a header, so Go sends its requests again, with a script that has it.
--
-- In work, a list is a table, of a history h its h.list:
--   text    the appointments, as stored
--   sum     units of all
--   begun   number of those whose instants have passed: the history in work has them as entries
--   booked  units of the others
--   writes  whether the operation writes the history, so that those that have begun leave the list
--   ends    of a bucket, the instant at which it is full
--   final   a bucket as it is at the last instant, at its present rate: debt, rest, since; or nil

local ITEM = 14 -- bytes of an appointment
local lists = {} -- by the keys that were read
local waits_until -- the longest waits of the requests, by the number of keys before them

local read_bare, write_bare = read_header, write
local load_bare, load_bucket_bare = load, load_bucket
local store_bare = store_bucket

-- cut_list returns a header without its appointments, and their list.
local function cut_list(head)
  if #head < 12 then error('weir:state the header is cut off', 0) end
  local _, sum, count = decode('>BI7I4', head)
  local with_final = count >= 2^31
  if with_final then count = count - 2^31 end
  local size = 12 + ITEM * count
  local behind = size + (with_final and 21 or 0)
  if #head <= behind then error('weir:state the header is cut off', 0) end
  if sum >= 2^53 or sum < count then error('weir:state the header is damaged', 0) end
  local list = { text = sub(head, 13, size), sum = sum, begun = 0, booked = sum, writes = false }
  if with_final then
    local debt, rest, since = decode('>I7I7I7', head, size + 1)
    list.final = { debt = debt, rest = rest, since = since }
  end
  return sub(head, behind + 1), list
end

-- pack_list returns the appointments of a list as they are stored, '' for none.
local function pack_list(list)
  local text, sum = list.text, list.sum
  if list.writes then text, sum = sub(text, ITEM * list.begun + 1), list.booked end
  if text == '' then return '' end
  local count, final = #text / ITEM, list.final
  if not final then return encode('>BI7I4', 5, sum, count) .. text end
  return encode('>BI7I4', 5, sum, count + 2^31) .. text ..
    encode('>I7I7I7', final.debt, final.rest, final.since)
end

function read_header(key)
  local head, block = read_bare(key)
  local list
  if head and byte(head) == 5 then head, list = cut_list(head) end
  lists[key] = list
  return head, block
end

function load(key)
  local h = load_bare(key)
  h.list = lists[key]
  return h
end

function load_bucket(key)
  local bucket = load_bucket_bare(key)
  bucket.list = lists[key]
  return bucket
end

-- The write of a history puts its list in front of the header, and stores the chunks that were made
-- of appointments that have begun.
function write(waits, key, head, chunks, ttl, block)
  local list = lists[key]
  if not waits and list and byte(head) ~= 5 then head = pack_list(list) .. head end
  if not waits and chunks and chunks.made then
    local all = {}
    for number = math.max(chunks.from, chunks.made.first), chunks.to - 1 do
      if chunks.made[number] then
        all[#all + 1] = number
        all[#all + 1] = chunks.made[number]
      end
    end
    for _, v in ipairs(chunks.changed or {}) do all[#all + 1] = v end -- the later of two is stored.
    chunks.changed = #all > 0 and all
  end
  write_bare(waits, key, head, chunks, ttl, block)
end

-- find_latest returns the instant of the last appointment, or last if none is ahead.
local function find_latest(list, last)
  if list.booked == 0 then return last end
  return (decode('>I7', list.text, #list.text - ITEM + 1))
end

-- find_patience returns the longest wait of a request.
local function find_patience(k)
  if not waits_until then
    waits_until = {}
    local text = ARGV[#ARGV]
    for place = 1, #text, 8 do
      local before, wait = decode('>I2I6', text, place)
      waits_until[before] = wait
    end
  end
  return waits_until[k]
end

-- shift moves appointments with a corrected clock (R2).
local function shift(list, by)
  local moved = {}
  for place = 1, #list.text, ITEM do
    local start, n = decode('>I7I7', list.text, place)
    moved[#moved + 1] = encode('>I7I7', start + by, n)
  end
  list.text, list.final = table.concat(moved), nil
end

-- find_entry returns the mark of the entry that an appointment becomes, behind an entry with the
-- mark newest (R3, R9). In a window of a Period before that of now, any mark in it will do.
local function find_entry(start, newest, kind, window, a, b)
  local mark = start
  if kind == 1 and b > 0 then
    if start >= a then mark = a end
  elseif kind == 1 then mark = start - start % window
  elseif kind == 2 and newest > start - window then mark = newest
  elseif kind == 0 and a > 0 then mark = math.min(start - start % a + a, 2^53 - 1)
  end
  return math.max(mark, newest)
end

-- make_chunk makes the tail of a history a chunk that is not stored yet.
local function make_chunk(h)
  local chunks = add_chunk(h.chunks, h.key, h.tail, h.newest, h.units - h.own)
  local number = chunks.changed[1]
  chunks.made = chunks.made or { first = number, count = 0 }
  chunks.made[number], chunks.made.count = chunks.changed[2], chunks.made.count + 1
  h.chunks, h.tail, chunks.changed = chunks, '', false
end

-- fold makes the appointments of a history that have begun entries of their instants, and returns
-- the instant of its newest attempt.
local function fold(h, now, kind, window, a, b)
  local list = h.list
  for place = 1, #list.text, ITEM do
    local start, n = decode('>I7I7', list.text, place)
    if start > now then break end
    local mark = find_entry(start, h.newest, kind, window, a, b)
    if h.units == 0 then
      h.tail, h.first, h.newest, h.own = '', mark, mark, n
    elseif mark <= h.newest then h.own = h.own + n
    else
      if h.chunks then h.chunks.late = h.chunks.late + h.own end
      h.tail = h.tail .. encode_entry(mark - h.newest, h.own)
      h.newest, h.own = mark, n
    end
    h.units, h.last = h.units + n, math.max(h.last, start)
    list.begun, list.booked = list.begun + 1, list.booked - n
    if #h.tail > CHUNK then make_chunk(h) end
  end
  return h.last
end

-- begin takes the units of an appointment out of a bucket, at its instant, a gap after the instant
-- of the bucket. At most `most` units are missing then, unless more were before.
local function begin(bucket, start, gap, n, most)
  local debt, rest, a, b, c = bucket.debt - gap, bucket.rest, bucket.a, bucket.b, bucket.c
  local ahead = bucket.since > start and bucket.since - start or 0
  if debt < ahead or debt == ahead and rest == 0 then
    debt, rest, bucket.since = ahead, 0, start + ahead
  end
  local time, part = compute_inflow(n, a, b, c)
  local bound, over = compute_inflow(math.min(most, bound_units(a, b)), a, b, c)
  time, part = debt + time, rest + part
  if part >= c then time, part = time + 1, part - c end
  if exceeds(time - ahead, part, bound, over) > 0 then
    time, part = bound + ahead, over
    if exceeds(debt, rest, time, part) > 0 then time, part = debt, rest end
  end
  bucket.debt, bucket.rest = time, part
end

-- fold_bucket takes the units of appointments that have begun out of a bucket that is not refilled
-- yet. If the clock was corrected, the appointments move, and none has begun.
local function fold_bucket(bucket, now, a, b, c)
  local list = bucket.list
  if bucket.a ~= a or bucket.b ~= b or bucket.c ~= c then list.final = nil end
  if bucket.last - raw >= 1000000 then return shift(list, now - bucket.last) end
  for place = 1, #list.text, ITEM do
    local start, n = decode('>I7I7', list.text, place)
    if start > now then break end
    begin(bucket, start, start - bucket.last, n, bound_units(a, b))
    bucket.last = math.max(bucket.last, start)
    list.begun, list.booked = list.begun + 1, list.booked - n
  end
end

-- wait_for_bucket is find_waits for a bucket with appointments ahead. If the units fit behind all
-- of them, it does not look at each.
local function wait_for_bucket(bucket, now, units, most, a, b, c)
  local list, at, final = bucket.list, now, bucket.list.final
  local passes = final and list.booked > 0 and (units > most
    or exceeds(final.debt, final.rest, compute_inflow(most - units, a, b, c)) > 0)
  local s = { debt = bucket.debt, rest = bucket.rest, since = bucket.since, a = a, b = b, c = c }
  local booked, fits, next = list.booked, units > most and 0 or nil, nil
  if bucket.units > 0 then
    next = exceeds(s.debt, s.rest, compute_inflow(bucket.units - 1, a, b, c))
  end
  for place = ITEM * list.begun + 1, #list.text, ITEM do
    if passes and next then break end
    local start, n = decode('>I7I7', list.text, place)
    local room = most - units - booked
    if not fits and room >= 0 then
      local wait = math.max(0, exceeds(s.debt, s.rest, compute_inflow(room, a, b, c)))
      if at + wait <= start then fits = at + wait - now end
    end
    begin(s, start, start - at, n, 2^53)
    booked, at = booked - n, start
    if not next then -- it is full until then.
      local missing = count_missing(s.debt - math.max(0, s.since - at), s.rest, a, b, c)
      next = at - now + exceeds(s.debt, s.rest, compute_inflow(missing - 1, a, b, c))
    end
  end
  if passes then s, at = final, find_latest(list)
  elseif list.booked > 0 then list.final = s
  end
  if not fits then
    local wait = exceeds(s.debt, s.rest, compute_inflow(most - units, a, b, c))
    fits = at - now + math.max(0, wait)
  end
  list.ends = at + s.debt + 1
  return fits, next or 0, at - now + s.debt + (s.rest > 0 and 1 or 0)
end

-- The key of a bucket lives until it is full behind all appointments.
function store_bucket(waits, bucket, now, most, interval, block)
  local list = bucket.list
  if list then
    list.writes = true
    if not list.ends then
      wait_for_bucket(bucket, now, 0, most, bucket.a, bucket.b, bucket.c)
    end
    interval = math.max(interval + find_latest(list, bucket.last), list.ends) - bucket.last
  end
  store_bare(waits, bucket, now, most, interval, block)
end

-- find_end returns the end of the window of a Period with an instant. The end of the window of now
-- is b, and the plan has those behind it.
local function find_end(plan, i, instant, b)
  if instant < b then return b end
  if byte(plan, 3) > 3 then
    local place = #plan - decode('>I4', plan, #plan - 3) + 1
    for _ = 1, i - 1 do place = place + 2 + 7 * decode('>I2', plan, place) end
    local count = decode('>I2', plan, place)
    for j = 0, count - 1 do
      local ends = decode('>I7', plan, place + 2 + 7 * j)
      if instant < ends then return ends end
    end
  end
  error(string.format('weir:windows %.0f', instant), 0)
end

-- copy_ends returns the ends of windows that a plan has, for some of its limits, as in a plan.
local function copy_ends(plan, places)
  local text, place, ends = '', #plan - decode('>I4', plan, #plan - 3) + 1, {}
  for i = 1, byte(plan, 2) do
    local size = 2 + 7 * decode('>I2', plan, place)
    ends[i], place = sub(plan, place, place + size - 1), place + size
  end
  for j = 1, #places do text = text .. ends[places[j]] end
  return text .. encode('>I4', #text + 4)
end

-- find_leave returns the time from now until the units of an appointment leave, and their mark.
local function find_leave(start, now, newest, plan, i, kind, window, a, b)
  if kind == 1 and b > 0 then return find_end(plan, i, start, b) - now, newest end
  local mark = find_entry(start, newest, kind, window, a, b)
  return mark - now + window, mark -- an instant above 2^53 is not exact.
end

-- find_leaves returns the times from now until the first of the units ahead leaves, the last one,
-- and so many of them; nil for none.
local function find_leaves(list, now, newest, units, plan, i, kind, window, a, b)
  local text, place = list.text, ITEM * list.begun + 1
  local begins = decode('>I7', text, place)
  local first = find_leave(begins, now, newest, plan, i, kind, window, a, b)
  if kind == 2 then -- a window begins with the first unit behind the last one.
    local leave, at
    while place <= #text do
      local start, n = decode('>I7I7', text, place)
      leave, newest = find_leave(start, now, newest, plan, i, kind, window, a, b)
      if units > 0 and units <= n then at = leave end
      units, place = units - n, place + ITEM
    end
    return first, leave, at
  end
  local final = find_leave(find_latest(list), now, newest, plan, i, kind, window, a, b)
  if units <= 0 or units > list.booked then return first, final, nil end
  local left = list.booked - units -- behind those
  place = #text - ITEM + 1
  local start, n = decode('>I7I7', text, place)
  while n <= left do
    left, place = left - n, place - ITEM
    start, n = decode('>I7I7', text, place)
  end
  return first, final, (find_leave(start, now, newest, plan, i, kind, window, a, b))
end

-- book adds units at an instant ahead to the list of a history or a bucket, and returns the list.
local function book(h, start, n)
  local list = h.list or { text = '', sum = 0, begun = 0, booked = 0 }
  local place, text = #list.text + 1, list.text
  local at, units
  while place > ITEM * list.begun + 1 do
    at, units = decode('>I7I7', text, place - ITEM)
    if at <= start then break end
    place = place - ITEM
  end
  local behind = sub(text, place)
  if place > ITEM * list.begun + 1 and at == start then
    place, n = place - ITEM, n + units
    list.sum, list.booked = list.sum - units, list.booked - units
    list.final = nil
  elseif list.final and list.booked > 0 and behind == '' then
    local s = { debt = list.final.debt, rest = list.final.rest, since = list.final.since,
      a = h.a, b = h.b, c = h.c }
    begin(s, start, start - find_latest(list), n, 2^53)
    list.final = s
  else list.final = nil
  end
  list.text = sub(text, 1, place - 1) .. encode('>I7I7', start, n) .. behind
  list.sum, list.booked, list.writes, list.ends = list.sum + n, list.booked + n, true, nil
  h.list, lists[h.key] = list, list
  return list
end

-- cancel takes up to n units of the appointment at an instant back, or its cost, but that only if
-- whole: nothing of it will be used. It returns the units taken, or nil if none is ahead at that
-- instant.
local function cancel(list, instant, n, cost, whole)
  local text = list.text
  for place = ITEM * list.begun + 1, #text, ITEM do
    local start, units = decode('>I7I7', text, place)
    if start == instant then
      if cost > 0 and not whole then return 0 end
      local took = math.min(cost > 0 and cost or n, units)
      if took == 0 then return 0 end
      local left = took < units and encode('>I7I7', start, units - took) or ''
      list.text = sub(text, 1, place - 1) .. left .. sub(text, place + ITEM)
      list.sum, list.booked, list.writes = list.sum - took, list.booked - took, true
      list.final = nil
      return took
    end
    if start > instant then return nil end
  end
  return nil
end

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

-- Corrects what was recorded: refunds (R10). And counts it (R11).
--
-- Here the table of a history or a bucket has in addition
--   number     of its key
--   cut        newest mark that does not count at now
--   corrected  whether the clock was (R2)
--   head       header to be stored, nil for none
--   most, interval  of the limit of a bucket that is to be stored

-- strike takes up to want units from the entries in text from place i on, or from the first of
-- them only. It returns the new text and the units taken. Entries without units stay until they
-- are the oldest.
local function strike(text, i, want, single)
  local before, took = sub(text, 1, i - 1), 0
  repeat
    local gap, more, after = decode_number(text, i)
    local n = 1
    if more then n, more, after = decode_number(text, after) end
    local less = math.min(n, want - took)
    before, took, i = before .. encode_entry(gap, n - less), took + less, after
  until single or took == want or i > #text
  return before .. sub(text, i), took
end

-- strike_chunk is strike for a chunk: it changes its head, too.
local function strike_chunk(text, i, want, single)
  local after, took = strike(text, i, want, single)
  local behind, units = decode('>I7I7', text)
  return encode('>I7I7B', behind, units - took, #after - 15) .. sub(after, 16), took
end

-- copy returns chunks that can be passed without a change of the history.
local function copy(chunks)
  if not chunks then return nil end
  return { key = chunks.key, stored = chunks.stored, from = chunks.from, to = chunks.to,
    skip = chunks.skip, late = chunks.late, text = chunks.text, top = chunks.top,
    made = chunks.made }
end

-- pass_over passes the entries with marks up to cut, and returns what pass returns.
local function pass_over(h, chunks, cut)
  if h.first > cut then return h.first, h.tail, 0 end
  local mark, rest, passed = pass(chunks, h.tail, h.first, h.newest, cut, 2^53)
  if h.units - passed < h.own then error('weir:state a sum of units is damaged', 0) end
  return mark, rest, passed
end

-- take_single takes up to want units from the older entry with a mark. It returns the units taken.
local function take_single(h, mark, want)
  local moved = copy(h.chunks)
  local there, rest = pass(moved, h.tail, h.first, h.newest, mark - 1, 2^53)
  if there ~= mark then return 0 end
  local took
  if moved and moved.from < moved.to then
    local text = moved.text or read_chunk(moved, moved.from)
    text, took = strike_chunk(text, moved.skip, want, true)
    h.chunks.changed = { moved.from, text }
    if moved.from == h.chunks.from then h.chunks.text = text end
  else
    h.tail, took = strike(h.tail, #h.tail - #rest + 1, want, true)
    if h.chunks then h.chunks.late = h.chunks.late - took end
  end
  return took
end

-- take_oldest takes up to want of the units that count, the oldest first. It returns the units
-- taken. Entries that no longer count stay (R2).
local function take_oldest(h, want)
  local moved = copy(h.chunks)
  local mark, rest, gone = pass_over(h, moved, h.cut)
  local took = math.min(want, h.units - gone)
  if took == h.units - gone then
    h.own = 0
    return took
  end

  if gone == 0 then -- the oldest leave the history.
    local passed
    h.first, h.tail, passed = pass(h.chunks, h.tail, h.first, h.newest, 2^53, took)
    local left, chunks = took - passed, h.chunks
    if h.first == h.newest then h.own = h.own - left
    elseif left == 0 then return took
    elseif chunks and chunks.from < chunks.to then
      chunks.text = strike_chunk(chunks.text, chunks.skip, left, true)
      chunks.changed = { chunks.from, chunks.text }
    else h.tail = strike(h.tail, 1, left, true)
    end
    return took
  end

  local left, got, place = took, 0, #h.tail - #rest + 1
  if moved and moved.from < moved.to then
    local changed, text, i = {}, moved.text, moved.skip
    for number = moved.from, moved.to - 1 do
      text = text or read_chunk(moved, number)
      local behind, units = decode('>I7I7', text)
      if i == 16 and units <= left then -- one entry without units is in place of all.
        local entry = encode_entry(behind - mark, 0)
        text, got = encode('>I7I7B', behind, 0, #entry) .. entry, units
      else text, got = strike_chunk(text, i, left)
      end
      changed[#changed + 1] = number
      changed[#changed + 1] = text
      mark, text, i, left = behind, nil, 16, left - got
      if left == 0 then break end
    end
    h.chunks.changed = changed
  end
  if left > 0 and place <= #h.tail then
    h.tail, got = strike(h.tail, place, left)
    if h.chunks then h.chunks.late = h.chunks.late - got end
    left = left - got
  end
  h.own = h.own - left
  return took
end

-- find_mark returns the mark of the entry that was granted at an instant, or nil.
local function find_mark(h, instant, kind, window, a, b)
  if kind == 1 and b > 0 then return a <= instant and instant < b and h.newest or nil end
  if kind == 2 and h.newest <= instant and instant - h.newest < window then return h.newest end
  local _, mark = find_marks(instant, kind, window, a, b)
  return mark
end

-- take takes up to want units of the entry that was granted at an instant, above 2^53 of the
-- oldest. It returns the units taken. No other entry changes, not even one that no longer counts:
-- the newest attempt does not move, so a later decision may be at an earlier instant (R2).
local function take(h, want, instant, kind, window, a, b)
  if want == 0 or h.newest <= h.cut then return 0 end
  local took, keep = 0, h.newest - 1
  if instant >= 2^53 then took, keep = take_oldest(h, want), h.cut
  else
    local mark = find_mark(h, instant, kind, window, a, b)
    if mark == h.newest then
      took = math.min(want, h.own)
      h.own = h.own - took
    elseif mark and mark > h.cut and mark < h.newest then took = take_single(h, mark, want)
    end
  end
  h.units = h.units - took
  local chunks = h.chunks
  if took == 0 then return 0 end
  if h.own == 0 then retreat(h, keep) end -- the last older entry with units is the newest.
  if h.units == 0 then
    h.tail, h.first = '', h.newest
    if chunks then chunks.from = chunks.to end
  elseif h.tail == '' and not (chunks and chunks.from < chunks.to) then h.first = h.newest
  else h.first, h.tail = pass(chunks, h.tail, h.first, h.newest, -2^53, 0)
  end
  if chunks and chunks.changed and chunks.changed[1] < chunks.from then chunks.changed = nil end
  return took
end

-- take_bucket takes back up to want units of a bucket, granted at an instant. A grant from before
-- the bucket was last full has flowed in again (R16).
local function take_bucket(bucket, now, want, instant)
  local took = 0
  if instant >= 2^53 or bucket.since <= instant and instant <= bucket.last then
    took = math.min(want, bucket.units)
  end
  local time, part = compute_inflow(took, bucket.a, bucket.b, bucket.c)
  local debt, rest = bucket.debt - time, bucket.rest - part
  if rest < 0 then debt, rest = debt - 1, rest + bucket.c end
  if debt < bucket.last - now then debt, rest = bucket.last - now, 0 end -- (R2)
  bucket.debt, bucket.rest = debt, rest
  return took
end

-- see moves a history to now: it corrects it if the clock was (R2), and takes the appointments that
-- have begun as entries (R18).
local function see(h, cut, mark, now, kind, window, a, b)
  h.cut, h.corrected = cut, h.last - raw >= 1000000
  if h.corrected then
    if h.list then shift(h.list, now - h.last) end
    correct(h, now, mark)
  end
  if h.list then fold(h, now, kind, window, a, b) end
  if h.chunks and (h.newest <= cut or h.own == h.units) then count_chunks(h.chunks) end
end

-- load_all returns the histories of a request, and its instant (R2). felt has the numbers of the
-- limits whose blocks count.
local function load_all(plan, k, felt)
  local histories, now = {}, raw
  for i = 1, byte(plan, 2) do
    current = k + i
    local bucket = byte(plan, 49 * i - 38) == 3
    local h = bucket and load_bucket(KEYS[current]) or not bucket and load(KEYS[current])
    h.number, histories[i] = current, h
    now = advance(now, h.last)
    if h.block and felt[i] then now = advance(now, h.block.begin) end
  end
  return histories, now
end

-- take_back takes back up to n units of limit i, granted at an instant, above 2^53 of the oldest.
-- A cost stays, because the attempt was made, but a hold ends whole (R17). whole reports that an
-- appointment is cancelled whole, with its cost (R18). It returns the units taken, or nil if now is
-- outside of the window of a Period. Nothing is stored yet.
local function take_back(h, plan, i, now, n, instant, whole)
  current = h.number
  local kind, most, window, interval, cost, a, b, c =
    decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
  local want, took = 0, 0
  if n > 0 and cost == 0 then want = n
  elseif n > 0 and kind == 0 and c == 1 then want = cost
  end
  if h.block then see_block(h.block, now, false) end
  local list, cancelled = h.list, nil
  if kind == 3 then
    if list then fold_bucket(h, now, a, b, c) end
    refill(h, now, a, b, c)
    if list and n > 0 then cancelled = cancel(list, instant, n, cost, whole) end
    if cancelled and cancelled > 0 then h.last = now end
    took = cancelled or take_bucket(h, now, want, instant)
    if list and took > 0 then list.final = nil end
    if took > 0 or h.changed then h.most, h.interval = most, interval end
    return took
  end
  local cut, mark = find_marks(now, kind, window, a, b)
  if not cut then return nil end
  see(h, cut, mark, now, kind, window, a, b)
  if list and n > 0 then cancelled = cancel(list, instant, n, cost, whole) end
  if cancelled and cancelled > 0 then h.last = now end
  took = cancelled or take(h, want, instant, kind, window, a, b)
  if list and took > 0 then list.writes = true end
  if took > 0 or h.corrected then
    if h.own < 1 and h.units > 0 then error('weir:state the header is damaged', 0) end
    h.head = pack_header(h.last, h.first, h.promised, h.own, h.units, h.newest, h.chunks, h.tail)
  end
  return took
end

-- store stores what take_back changed.
local function store(h, now)
  if h.head then write(false, h.key, h.head, h.chunks, nil, h.block)
  elseif h.most then store_bucket(false, h, now, h.most, h.interval, h.block)
  end
end

-- pack_units returns the reply of a refund, a count or a settlement.
local function pack_units(units, now)
  return encode('>BBI7i8I7i8I7I7I7', 0, 0, units, 0, now, 0, 0, 0, 0)
end

-- refund takes back up to n units of the entry granted at an instant, or of the oldest that count,
-- in every limit. A refund of nothing writes nothing. It returns what decide returns.
local function refund(plan, k, n, instant)
  local most = 0
  local histories, now = load_all(plan, k, {})
  for i = 1, #histories do
    local took = take_back(histories[i], plan, i, now, n, instant, true)
    if not took then return encode('>BI7', 2, now) end
    most = math.max(most, math.min(took, n))
  end
  for i = 1, most > 0 and #histories or 0 do store(histories[i], now) end
  return pack_units(most, now), most > 0, now
end

-- count returns the units of one limit that were recorded in a span before now (R11).
local function count(plan, k, span)
  local kind, _, window, _, _, a, b = decode('>BI7I6I6i8I7I7I7', plan, 11)
  current = k + 1
  local h = load(KEYS[current])
  local now = advance(raw, h.last)
  local cut, mark = find_marks(now, kind, window, a, b)
  if not cut then return encode('>BI7', 2, now) end
  if kind ~= 1 or b == 0 then cut = now - span end
  see(h, cut, mark, now, kind, window, a, b)
  if h.newest <= cut then return pack_units(0, now) end
  local _, _, passed = pass_over(h, h.chunks, cut)
  return pack_units(h.units - passed, now)
end

-- Remembers operations with an id (R15), and the reservations that attempts open (R19).
--
-- An operation is a string: version B = 3, operation B, n I7 and the number I7 of its request (see
-- requests.lua), instant I7 until which it is known; of its reply all from the binding limit to the
-- rest of the block, 52 bytes; and that limit as in the reply. An attempt that opened a reservation
-- has behind that:
-- all granted units I7, instant of the newest grant I7, units of the newest grant I7, units of the
-- attempt I7, instant of the hold i8 (-1 none), end of life I7, units of the settlement i8 (-1
-- open), granted I7 and instant I7 of the reply to the settlement, and the reply to the newest
-- extension with units: length B, 0 or 45, and all from the binding limit on to valid.
--
-- In work, an operation is a table: op, n, number, ends, reply, limit, and reservation, nil for an
-- operation without. A reservation is a table:
--   units, at, newest, held, hold, expires, actual, refunded, settled, extended, in this order

local RESERVATION = '>I7I7I7I7i8I7i8I7I7'

-- read_reservation returns the reservation in an operation from place i on.
local function read_reservation(text, i)
  local units, at, newest, held, hold, expires, actual, refunded, settled =
    decode(RESERVATION, text, i)
  local extended = sub(text, i + 66)
  local early = math.max(at, hold, settled) < 2^53 and expires < 2^54
  local few = math.max(units, newest, held, actual, refunded) < 2^51
  local whole = #extended == 0 or #extended == 45
  if not early or not few or not whole or math.min(hold, actual) < -1 then
    error('weir:state the reservation is damaged', 0)
  end
  return { units = units, at = at, newest = newest, held = held, hold = hold, expires = expires,
    actual = actual, refunded = refunded, settled = settled, extended = extended }
end

-- recall returns the operation of a key, or nil.
local function recall(key)
  local text = call('GET', key)
  if not text then return nil end
  if byte(text) ~= 3 then error('weir:state the operation is of another version', 0) end
  local behind = #text > 75 and 77 + byte(text, 76) or 2^53
  local reserves = #text > behind + 64 and #text == behind + 65 + byte(text, behind + 65)
  if not reserves and #text ~= behind - 1 then error('weir:state the operation is cut off', 0) end
  local _, op, n, number, ends, _, granted, _, instant, wait, reset, valid, rest =
    decode('>BBI7I7I7BI7i8I7i8I7I7I7', text)
  if math.max(granted, instant, wait, reset, valid, rest) >= 2^53 or ends >= 2^54 or wait < -1 then
    error('weir:state the operation is damaged', 0)
  end
  return { op = op, n = n, number = number, ends = ends, reply = sub(text, 24, 75),
    limit = sub(text, 77, behind - 1), reservation = reserves and read_reservation(text, behind) }
end

-- save stores an operation.
local function save(key, o)
  local text = encode('>BBI7I7I7', 3, o.op, o.n, o.number, o.ends) .. o.reply ..
    encode('B', #o.limit) .. o.limit
  local r = o.reservation
  if r then
    text = text .. encode(RESERVATION, r.units, r.at, r.newest, r.held, r.hold, r.expires, r.actual,
      r.refunded, r.settled) .. encode('B', #r.extended) .. r.extended
  end
  local _, ttl = renew(0, o.ends, 0)
  call('SET', key, text, 'PX', ttl)
  current = -1
end

-- describe returns the end of a reply: a reservation, or none for nil.
local function describe(r)
  if not r then return encode('>I7I7i8i8', 0, 0, -1, -1) end
  return encode('>I7I7i8i8', r.units, r.expires, r.hold, r.actual)
end

-- find_holds returns the shortest and the longest hold of the concurrency limits of a plan (R17),
-- or nil without any.
local function find_holds(plan)
  local shortest, longest
  for i = 1, byte(plan, 2) do
    local kind, _, window, _, _, _, _, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
    if kind == 0 and c == 1 then
      shortest, longest = math.min(shortest or window, window), math.max(longest or 0, window)
    end
  end
  return shortest, longest
end

-- repeat_reply returns the reply of a remembered operation to a request with its id. The life of
-- a reservation may differ.
local function repeat_reply(o, op, n, number)
  local same = o.op == op and o.n == n and o.number == number
  local opens = op == 0 and number > 0
  if op == 0 then same = o.op == op and o.n == n and (o.number > 0) == opens end
  if not same then
    local about = o.op == 0 and o.number > 0 and ' reserved' or ''
    error(string.format('weir:id %d %.0f%s', o.op, o.n, about), 0)
  end
  local reply = o.reply
  local start = byte(reply) == 0 and decode('>I7', reply, 39) or 0
  if start > 0 then -- the rest of the time until its use may begin (R18).
    local left = math.max(0, decode('>I7', reply, 17) + start - raw)
    reply = sub(reply, 1, 38) .. encode('>I7', math.min(left, start)) .. sub(reply, 46)
  end
  reply = encode('B', 1) .. reply .. encode('B', #o.limit) .. o.limit
  return opens and reply .. describe(o.reservation) or reply
end

-- decide_once decides a request, or returns the reply of the operation with its id.
local function decide_once(plan, k, op, n, number, flags)
  current = k + byte(plan, 2) + 1
  local key = KEYS[current]
  local known = recall(key)
  if known and raw < known.ends then return repeat_reply(known, op, n, number) end

  local reply, recorded, start
  if op == 3 then reply, recorded, start = refund(plan, k, n, number)
  else reply, recorded, start = decide(plan, k, op, n, number, flags)
  end
  local opens = op == 0 and number > 0 and byte(reply) ~= 2
  if not recorded then return opens and reply .. describe() or reply end

  local bound, granted = decode('>BI7', reply, 2)
  local o = { op = op, n = n, number = number, ends = start + decode('>I7', plan, 4),
    reply = sub(reply, 2, 53), limit = '' }
  if bound > 0 then
    local name = string.match(KEYS[k + bound], '}([^:/]+)')
    o.limit = name .. sub(plan, 49 * bound - 38, 49 * bound + 10) .. sub(plan, 2, 2)
  end
  if opens and granted > 0 then
    o.reservation = { units = granted, at = start, newest = granted, held = granted,
      hold = find_holds(plan) and start or -1, expires = start + number, actual = -1,
      refunded = 0, settled = 0, extended = '' }
    o.ends = start + math.max(number, 60000000)
  end
  save(key, o)
  return opens and reply .. describe(o.reservation) or reply
end

-- Settles and extends reservations (R19). remember.lua has their layout.

-- find_operation returns the operation that opened the reservation of a request.
local function find_operation(plan, k)
  current = k + byte(plan, 2) + 1
  local o = recall(KEYS[current])
  if not o or raw >= o.ends or not o.reservation then error('weir:expired unknown', 0) end
  return o
end

-- check_life raises an error unless a reservation lives at the clock.
local function check_life(r)
  if raw >= r.expires then error(string.format('weir:expired life %.0f', r.units), 0) end
end

-- keep stores a reservation after a change at now. It is remembered until the end of its life, and
-- for a minute at least.
local function keep(plan, k, o, now)
  o.ends = math.max(o.ends, o.reservation.expires, now + 60000000)
  save(KEYS[k + byte(plan, 2) + 1], o)
end

-- sort_limits returns the numbers of the limits that are no concurrency limits and have no cost,
-- and whether each limit is a concurrency limit.
local function sort_limits(plan)
  local free, held = {}, {}
  for i = 1, byte(plan, 2) do
    local kind, _, _, _, cost, _, _, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
    held[i] = kind == 0 and c == 1
    if not held[i] and cost == 0 then free[#free + 1] = i end
  end
  return free, held
end

-- cut_plan returns a plan of some limits without blocks, given by their numbers. costs are their
-- costs, or nil for those of the plan.
local function cut_plan(plan, mode, places, costs)
  local ends = byte(plan, 3) > 3
  local text = encode('BBB', mode, #places, ends and 4 or 0) .. sub(plan, 4, 10)
  for j = 1, #places do
    local i = 49 * places[j] - 38
    local cost = costs and encode('>i8', costs[j]) or sub(plan, i + 20, i + 27)
    text = text .. sub(plan, i, i + 19) .. cost .. sub(plan, i + 28, i + 48)
  end
  if ends then text = text .. copy_ends(plan, places) end
  return text
end

-- settle ends the holds of a reservation, and corrects its units to n, above 2^53 to all.
local function settle(plan, k, n)
  local o = find_operation(plan, k)
  local r = o.reservation
  local actual = n > 2^53 - 1 and r.units or n
  if r.actual >= 0 and actual ~= r.actual then
    error(string.format('weir:settled %.0f', r.actual), 0)
  end
  if r.actual >= 0 then
    local reply = sub(pack_units(r.refunded, r.settled), 2)
    return encode('B', 1) .. reply .. encode('B', 0) .. describe(r)
  end
  check_life(r)
  local free, held = sort_limits(plan)
  local histories, now = load_all(plan, k, {})
  local ended, refunded = 0, 0
  local whole = actual == 0 and r.newest == r.units -- the cost of an appointment is returned (R18).
  for i = 1, #histories do
    local want, granted = math.max(0, math.min(r.units - actual, r.newest)), r.at
    if held[i] then want, granted = r.hold >= 0 and r.held or 0, r.hold end
    local took = take_back(histories[i], plan, i, now, want, granted, whole)
    if not took then return encode('>BI7', 2, now) end
    if held[i] then ended = math.max(ended, took)
    else refunded = math.max(refunded, math.min(took, want))
    end
  end
  if n > 2^53 - 1 and r.hold >= 0 and find_holds(plan) and ended == 0 then
    error('weir:expired hold', 0)
  end
  local records = actual > r.units and #free > 0
  if records then -- what take_back changed in these limits are corrections, and decide makes them.
    decide(cut_plan(plan, byte(plan), free), k, 2, actual - r.units, 0, 0,
      { places = free, now = now, feels = false })
    for _, i in ipairs(free) do histories[i].head, histories[i].most = nil, nil end
  end
  if records or ended > 0 or refunded > 0 then
    for i = 1, #histories do store(histories[i], now) end
  end
  r.actual, r.refunded, r.settled = actual, refunded, now
  keep(plan, k, o, now)
  return pack_units(refunded, now) .. describe(r)
end

-- extend renews the life and the holds of a reservation, and adds n units to it. before has the
-- units that it had, above 2^53 unknown; so a repeated extension is made once.
local function extend(plan, k, n, before)
  local o = find_operation(plan, k)
  local r = o.reservation
  if r.actual >= 0 then error(string.format('weir:settled %.0f', r.actual), 0) end
  check_life(r)
  local differs = n > 0 and before <= 2^53 - 1 and before ~= r.units
  if differs and r.extended ~= '' and before + n == r.units and n == r.newest then
    return encode('B', 1) .. r.extended .. encode('>I7B', 0, 0) .. describe(r)
  end
  if differs or r.units + n > 2^51 - 1 then
    error(string.format('weir:units %.0f', r.units), 0)
  end
  local free, held = sort_limits(plan)
  local adds = {} -- whether a limit takes units
  for _, i in ipairs(free) do adds[i] = n > 0 end
  local histories, now = load_all(plan, k, adds)
  local shortest, longest = find_holds(plan)
  local renews = r.hold >= 0 and shortest
  if renews and now - r.hold >= shortest then error('weir:expired hold', 0) end

  -- The ends of the holds, and corrections of the other limits that take nothing.
  local places, costs, moved = {}, {}, 0
  for i = 1, #histories do
    if not adds[i] then
      local want = held[i] and renews and r.held or 0
      local took = take_back(histories[i], plan, i, now, want, r.hold)
      if not took then return encode('>BI7', 2, now) end
      if took > 0 then places[#places + 1], costs[#costs + 1] = i, took end
      moved = math.max(moved, took)
    end
  end
  if renews and moved == 0 then error('weir:expired hold', 0) end

  -- The units, as an attempt under the limits that take them. A denial changes nothing.
  local further, reply = n > 0 and #free > 0, pack_units(n, now)
  local addition = { places = free, now = now, feels = true }
  if further then
    reply = decide(cut_plan(plan, 0, free), k, 1, n, 0, 0, addition)
    local first, bound = byte(reply, 1, 2)
    if first == 2 then return reply end
    if bound > 0 then return encode('BB', first, free[bound]) .. sub(reply, 3) .. describe(r) end
  end

  -- Errors of the renewed holds are raised before the first write.
  local renewal, holds = cut_plan(plan, 0, places, costs), { places = places, now = now }
  if moved > 0 then decide(renewal, k, 1, 1, 0, 0, holds) end
  if further or moved > 0 then
    for i = 1, #histories do
      if not adds[i] then store(histories[i], now) end
    end
  end
  if moved > 0 then decide(renewal, k, 2, 1, 0, 0, holds) end
  if further then reply = decide(cut_plan(plan, 0, free), k, 0, n, 0, 0, addition) end
  if n > 0 then r.units, r.at, r.newest, r.extended = r.units + n, now, n, sub(reply, 2, 46) end
  local ttl, begins = o.number, decode('>I7', o.reply, 17)
  if byte(o.reply) == 0 then begins = begins + decode('>I7', o.reply, 39) end
  r.expires = math.max(now, begins) + ttl -- its life begins with its start (R18).
  if renews then r.hold, r.expires = now, now + math.max(ttl, longest) end
  keep(plan, k, o, now)
  return reply .. describe(r)
end

-- Decides each request by the function of its operation. The script operations has only decide and
-- decide_once.

local function decide_other(plan, k, op, n, number, flags)
  if op == 6 then return settle(plan, k, n) end
  if op == 7 then return extend(plan, k, n, number) end
  if flags % 4 > 1 then return decide_once(plan, k, op, n, number, flags) end
  if op == 3 then return refund(plan, k, n, number) end
  if op == 4 then return count(plan, k, number) end
  if op == 8 then return block(plan, k, number) end
  return decide(plan, k, op, n, number, flags)
end

answer(decide_other)
return table.concat(replies)
