-- Decides attempts, peeks, probes, records, refunds and counts under limits, settles and extends reservations, and begins and
-- ends blocks. Rules such as R7 are those of docs/semantics.md.
--
-- Units are whole numbers up to 2^51 - 1; instants and spans are whole microseconds up to 2^53 - 1. All numbers
-- are big-endian; B is one byte, I7 seven bytes, i8 eight bytes with a sign.
--
-- KEYS     for each request the history of each of its limits, then the key of its operation if it has an id.
-- ARGV[1]  for each request 24 bytes: number of its plan B (1 is ARGV[2]); operation B: 0 attempt, 1 peek, 2 record,
--          3 refund, 4 count, 6 settle, 7 extend, 8 block, 9 probe; flags B: 1 states are wanted, 2 it has an id; instant I7,
--          above 2^53 the server's clock; n I7, units: of a settle those really used, above 2^53 all; and a number I7:
--            attempt      life of the reservation that it opens, 0 none
--            refund       instant of the grant, above 2^53 the oldest entries
--            count        span
--            extend       units that the reservation had before, above 2^53 unknown
--            block        length, 0 ends the blocks
--            others       0
-- ARGV[p]  a plan: mode B: 0 all or nothing, 1 partial, 2 denied attempts count; number of limits B; form B: 1 if the mode is
--          0 or 1, and all limits are of kind 0 with a max above 0, without interval, cost and cells, otherwise 0; and 2 more
--          if a limit has a block; time I7 for which an operation is remembered. Then for each limit 49 bytes: kind B: 0
--          rolling or concurrency, 1 fixed, 2 fixed from the first unit, 3 bucket; max I7; window I6; minimum interval I6;
--          cost i8: units of any attempt, 0 its own number, -1 a peek; and three numbers I7:
--            rolling      width of a cell or 0, 0, 1 for holds or 0
--            fixed        0, 0, 0; or of a Period begin and end of the window around the client's clock, 0
--            bucket       one unit flows in every a + b/c microseconds, in lowest terms; max is the capacity
--          With a form of 2 or 3 follows the block of each limit I6: the time for which a denial by it blocks its history, 0
--          not (R20). Then for rules that join calls: for each call the number of its limits B, and their numbers B from 1. Each
--          of these calls begins a block of its own.
-- reply    for each request, one after the other:
--          0 B, binding limit B (0 none), granted I7, remaining i8, instant I7, wait i8 (-1 never), reset I7, valid I7
--          (the time for which a denial stays the same if nothing is written); then, if wanted, the state of each
--          limit: remaining i8, wait i8, and the times until the next unit is there i8, until the interval is over i8,
--          until no unit counts i8. A refund, a count, a settle and a block use granted and instant.
--          1 B: an operation that is remembered: its reply from the binding limit on, the rest of the longest block I7, and the
--          limit: length B, its name, its 49 bytes as above, and the number of limits B; or length 0.
--          2 B, instant I7: nothing is decided, because the instant is outside of the window of a Period.
--          3 B, number of the key among those of the request I2, length I2, text: an error; nothing is written, unless the text
--            begins with weir:half.
--          4 B: as 0, while a block runs: valid is followed by the rest of the longest block I7, and each state by that of its
--            block i8. The remaining units of a state are its room, also during its block.
--          5 B: as 4, but a block began or was set by this request.
--          Replies 0, 1, 4 and 5 to an attempt that opens a reservation, a settle and an extend end with the reservation: its
--          units I7 (0 none), the end of its life I7, the instant of its hold i8 (-1 none), the units of its settlement i8
--          (-1 open).
--
-- An operation is a string: version B = 3, operation B, n I7, its number I7, instant I7 until which it is known; of its reply
-- all from the binding limit on to valid, and the rest of the longest block I7; its limit as in reply 1. An attempt that opened
-- a reservation (R19) has behind that: all granted units I7, instant of the newest grant I7, units of the newest grant I7, units
-- of the attempt I7, instant of the hold i8 (-1 none), end of life I7, units of the settlement i8 (-1 open), granted I7 and
-- instant I7 of the reply to the settlement, and the reply to the newest extension with units: length B, 0 or 45, and all from
-- the binding limit on to valid.
--
-- A history is a hash. Field h is its header, in one of four forms:
--          1 B, last I7, first I7, promised I6, units I2, total I4, tail: the newest entry is of instant last.
--          2 B, last I7, first I7, promised I6, units I7, total I7, newest I7, from I6, chunks I4, skip I2, late I7,
--            length B, tail.
--          3 B, last I7, promised I6, debt I7, rest I7, since I7, a I7, b I7, c I7: a bucket.
--          4 B, begin I7, length I7, and a header as above or nothing: the history has a block (R20), which is dropped by the
--            first recording at the server's clock after its end. The key lives at least as long as the block, also beyond promised.
--          last      exact instant of the newest attempt (R2, R5)
--          first     mark of the oldest entry: its instant, the end of its cell or the begin of its window (R3, R9)
--          promised  millisecond until which the key lives at least; 0 = not known (R13)
--          newest    mark of the newest entry; units: its units, above 0 if there is an entry
--          total     units of all entries
--          tail      the older entries that are in no chunk; late: their units
--          from      number of the oldest chunk, of which skip bytes are over; the numbers of chunks are their fields
--          debt      time until the bucket is full, as of last: microseconds, and a numerator over c (R16)
--          since     when units were last taken from a full bucket, or its rate a + b/c changed
-- A chunk is mark I7 of the entry behind it, its units I7, length B of its entries, its entries.
-- An entry is the time to the next entry and its units: 2 to 5 bytes, or 8, and as many for units other than 1. The first
-- bit of a time is 1 if units follow. The next give its size: 0 of 2 bytes, 10 of 3, 110 of 4, 1110 of 5, 1111 of 8; of 8
-- bytes the last 7 are the number.
local call, encode, decode, assert = redis.call, struct.pack, struct.unpack, assert
local byte, char, sub = string.byte, string.char, string.sub
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local CHUNK = 96 -- bytes of entries in a chunk
local SMALL, LARGE = '>BI7I7I6I2I4Bc0', '>BI7I7I6I7I7I7I6I4I2I7Bc0' -- headers of forms 1 and 2

-- number returns the number at s[p], whether it is flagged, and the place behind it. Bits after the flag give its size.
local function number(s, p)
  local a, b, c, d, e = byte(s, p, p + 4)
  local flag = a >= 128
  if flag then a = a - 128 end
  if a < 64 then return a * 256 + b, flag, p + 2 end
  if a < 96 then return (a - 64) * 65536 + b * 256 + c, flag, p + 3 end
  if a < 112 then return (a - 96) * 16777216 + b * 65536 + c * 256 + d, flag, p + 4 end
  if a < 120 then return (a - 112) * 4294967296 + b * 16777216 + c * 65536 + d * 256 + e, flag, p + 5 end
  return decode('>I7', s, p + 1), flag, p + 8
end

-- coded returns the bytes of an entry: its units, and its gap, the time to the next entry (R7). A number is coded as a gap.
local function coded(gap, units)
  local text
  if gap < 16384 then text = encode('>I2', gap)
  elseif gap < 2097152 then text = encode('>I3', gap + 4194304)
  elseif gap < 268435456 then text = encode('>I4', gap + 1610612736)
  elseif gap < 34359738368 then text = encode('>I5', gap + 481036337152)
  else text = encode('>BI7', 120, gap) end
  if units == 1 then return text end
  return char(byte(text) + 128) .. sub(text, 2) .. coded(units, 1)
end

-- expiry returns the promise for a key that is needed until ends, and the milliseconds of a new time to live or nil (R13).
-- The promise is renewed once in a quarter of a span. The key lives a second longer, because the clock may step back (R2).
-- Real time may pass more slowly than given instants. With these the promise is marked by 2^44, and the key lives a span and
-- two hours longer.
local function expiry(promised, raw, ends, span, given)
  local spare, clock, longer = span / 4000, 0, 1000
  if given then spare, clock, longer = span / 1000, 2^44, 7200000 end
  local need = ends / 1000 + clock
  if promised >= need and promised <= need + spare + 1001 then return promised end
  promised = ceil(need + spare)
  return promised, promised - clock - floor(raw / 1000) + longer
end

local current = 0 -- the number of the key in work, which errors name; from the first write of a request on -1

-- short decides an attempt of one unit under limits i and later of a plain plan, if entries that leave have a unit each, and
-- no chunk begins or ends. Otherwise it returns nil and has changed nothing, and the functions further down decide. Each call
-- of a script creates its functions again, which takes longer than a decision, so those are created only if they are needed
-- (go run ./redis in bench has the times). A limit prepares its change before the limits after it decide, and writes it if
-- all of them grant.
local EMPTY = '\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- the header of a new history
local function short(plan, count, i, grant, raw, given, k)
  local key, most, window = KEYS[k + i], decode('>I7I6', plan, 49 * i - 37)
  local head, edge = call('HGET', key, 'h') or EMPTY, raw - window
  local form, last, first, promised, units, used, newest, from, chunks, skip, late, tail, p
  if byte(head) == 2 then
    form, last, first, promised, units, used, newest, from, chunks, skip, late, tail, p = decode(LARGE, head)
    if newest ~= last or chunks == 0 or used == 0 or last <= edge then return nil end
  else form, last, first, promised, units, used, tail, p = decode(SMALL, head)
  end
  if form < 1 or form > 2 or last > raw or first > last or used > most or used > 65000 or used < units or
    units == 0 and used > 0 or #head ~= p - 1 then return nil end
  if last <= edge then used = 0
  elseif first <= edge then -- the oldest entries have left (R3).
    local text, q, step, flag = tail, 1, nil, false
    if form == 2 then text, q = call('HGET', key, from), skip end
    while first <= edge and not flag do
      step, flag, q = number(text, q)
      first, used = first + step, used - 1
    end
    if form == 1 then tail = sub(tail, q) elseif q <= #text then skip = q else return nil end
    if flag or used < units or first > last or (byte(text, q) or 0) > 127 then return nil end
  end
  grant = grant and used < most
  local stored, lives, ttl
  if grant then
    local body = ''
    if used == 0 then first, units = raw, 1
    elseif last == raw then body, units = tail, units + 1
    else body, late, units = tail .. coded(raw - last, units), late and late + units, 1
    end
    if #body > CHUNK then return nil end
    lives, ttl = expiry(promised, raw, raw + window, window, given)
    stored = form == 1 and encode(SMALL, 1, raw, first, lives, units, used + 1, #body, body) or
      encode(LARGE, 2, raw, first, lives, units, used + 1, raw, from, chunks, skip, late, #body, body)
  end
  local bound, remaining, wait, reset, valid = 0, 2^53 - 1, 0, 0, 2^53 - 1
  if i < count then
    grant, bound, remaining, wait, reset, valid = short(plan, count, i + 1, grant, raw, given, k)
    if grant == nil then return nil end
  end
  if grant then
    current = call('HSET', key, 'h', stored) and -1
    if ttl then call('PEXPIRE', key, ttl) end
    used, last = used + 1, raw
  end
  if used == most and first - edge >= wait then bound, wait = i, first - edge end -- until the oldest unit has left (R8)
  if most - used < remaining then remaining = most - used end
  if used > 0 then
    if last - edge > reset then reset = last - edge end
    if first - edge < valid then valid = first - edge end
  end
  if i > 1 then return grant, bound, remaining, wait, reset, valid end
  return encode('>BBI7i8I7i8I7I7', 0, grant and 0 or bound, grant and 1 or 0, remaining, raw, wait, reset, valid)
end

-- requests decides requests in their order at one reading of the clock (R1), as far as it can without the functions decide
-- and once. An error of one request stops no other.
local replies, i, k, clock = {}, 1, 0, nil
local function requests(decide, once)
  local first, ARGV, pcall = i, ARGV, pcall -- locals are read in less time than globals
  for j = first, #ARGV[1] / 24 do
    local plan, op, flags, raw, n, from = decode('>BBBI7I7I7', ARGV[1], 24 * j - 23)
    plan, current = ARGV[plan + 1], k
    local given = raw <= 2^53 - 1
    local time = not given and not clock and call('TIME')
    if time then clock = time[1] * 1000000 + time[2] end
    if not given then raw = clock end
    local _, count, form = byte(plan, 1, 3)
    local fine, reply = (form == 1 or form == 3) and op == 0 and flags == 0 and n == 1, nil
    if fine and not (decide and j == first) then fine, reply = pcall(short, plan, count, 1, true, raw, given, k) end
    if form == 3 and fine and reply and byte(reply, 2) > 0 then reply = nil end -- the denial may begin a block (R20).
    if current >= 0 and not (fine and reply) then
      if not decide then return end
      fine, reply = pcall((op > 2 or flags > 1) and once or decide, plan, op, flags, raw, given, n, from, k)
    end
    if not fine then
      local text = sub((current < 0 and 'weir:half ' or '') .. (type(reply) == 'table' and reply.err or tostring(reply)), 1, 1000)
      reply = encode('>BI2I2', 3, max(current - k, 0), #text) .. text
    end
    replies[j], i = reply, j + 1
    k = k + count + (flags >= 2 and 1 or 0)
  end
end
requests()
if i > #ARGV[1] / 24 then return table.concat(replies) end

-- entry returns the time from the entry at s[p] to the next, its units, and the place behind it.
local function entry(s, p)
  local gap, flag, q = number(s, p)
  local units = 1
  if flag then units, flag, q = number(s, q) end
  return gap, units, q
end

-- chunk returns the text of chunk c, the mark behind it and its units.
local function chunk(key, c)
  local text = call('HGET', key, c)
  assert(text and #text > 15 and #text == 15 + byte(text, 15), 'weir:state a chunk is missing or cut off')
  return text, decode('>I7I7', text)
end

-- fit raises an error unless the numbers of a header fit together. A mark is less than a cell of 2^48 ahead of its instant.
local damaged, lost = 'weir:state the header is damaged', 'weir:state an entry is missing'
local function fit(last, newest, units, first, total, late)
  assert(last < 2^53 and newest < last + 2^48 and first <= newest and total <= 2^52 and late >= 0 and units + late <= total and
    (units > 0 or total == 0), damaged)
end

-- load returns a history as it is stored.
local function load(head)
  if not head then return -2^53, -2^53, 0, -2^53, 0, 0, 0, 0, 16, 0, '' end
  local form, last, newest, units, first, total, promised, from, chunks, skip, late, tail = byte(head)
  if form and form ~= 1 and form ~= 2 then error('weir:state version ' .. form, 0) end
  local size = form == 1 and 28 or 62
  if #head < size or #head ~= size + byte(head, size) then error('weir:state the header is cut off', 0) end
  if form == 1 then
    form, last, first, promised, units, total, tail = decode(SMALL, head)
    newest, from, chunks, skip, late = last, 0, 0, 16, total - units
    if total == 0 then newest, first = -2^53, -2^53 end
  else form, last, first, promised, units, total, newest, from, chunks, skip, late, tail = decode(LARGE, head)
  end
  fit(last, newest, units, first, total, late)
  return last, newest, units, first, total, promised, from, from + chunks, skip, late, tail
end

-- header returns the header of a history with its tail.
local function header(last, newest, units, first, total, promised, from, to, skip, late, tail)
  if total == 0 then return encode(SMALL, 1, last, 0, promised, 0, 0, 0, '') end
  fit(last, newest, units, first, total, late)
  if from == to and newest == last and units < 65536 and total < 4294967296 then
    return encode(SMALL, 1, last, first, promised, units, total, #tail, tail)
  end
  return encode(LARGE, 2, last, first, promised, units, total, newest, from, to - from, skip, late, #tail, tail)
end

-- walk moves a place over entries with marks up to stop and at most `most` units together, and over entries without
-- units. A place is an entry at s[p] of chunk c, or of the tail if c is to, and its mark u; the place of the newest entry
-- is the end of the tail. It returns the new place and the units between. Chunks are passed by their heads.
local function walk(key, tail, to, newest, c, s, p, u, stop, most)
  local gone = 0
  while true do
    if not s and c == to then s, p = tail, 1 end
    if not s then
      local text, behind, units = chunk(key, c)
      if p == 16 and (units == 0 or behind <= stop) and gone + units <= most then c, u, gone = c + 1, behind, gone + units
      else s = text
      end
    elseif p <= #s then
      local gap, n, q = entry(s, p)
      if n > 0 and (u > stop or gone + n > most) then return c, s, p, assert(u < newest and u, lost), gone end
      gone, u, p = gone + n, u + gap, q
    elseif c == to then
      assert(u == newest, lost)
      return c, s, p, u, gone
    else c, s, p = c + 1, nil, 16
    end
  end
end

-- counting returns the place of the oldest entry with a mark above cut, and the units that count (R3).
local function counting(key, tail, from, to, skip, newest, own, first, total, cut)
  local s, p, c, u, gone = nil, skip, from, first, 0
  if from == to then s, p = tail, 1 end
  if newest <= cut then return c, s, p, u, 0 end
  if u <= cut then c, s, p, u, gone = walk(key, tail, to, newest, c, s, p, u, cut, 2^53 - 1) end
  assert(gone <= total - own, 'weir:state a sum of units is damaged')
  return c, s, p, u, total - gone
end

-- write stores a prepared change of a history. It deletes the chunks from .. at - 1 and to .. top - 1, and sets the header, the
-- chunks in chunks (number and text by turns), and the time to live, which is then at least `least` milliseconds.
local function write(key, head, from, at, to, top, chunks, ttl, least)
  local dead = {}
  for i = from, at - 1 do dead[#dead + 1] = i end
  for i = to, top - 1 do dead[#dead + 1] = i end
  for i = 1, #dead, 1000 do current = call('HDEL', key, unpack(dead, i, min(i + 999, #dead))) and -1 end
  if not chunks then current = call('HSET', key, 'h', head) and -1 end
  for i = 1, chunks and #chunks or 0, 200 do current = call('HSET', key, 'h', head, unpack(chunks, i, min(i + 199, #chunks))) and -1 end
  if ttl then call('PEXPIRE', key, ttl) end
  if least and call('PTTL', key) < least then call('PEXPIRE', key, least) end
end

-- seen returns the newest mark that does not count at now, and the mark of an entry of now (R3, R9); nil if now is outside
-- of the window of a Period.
local function seen(kind, now, window, a, b)
  if kind == 1 and b > 0 then return now >= a and now < b and a - 1 or nil, a
  elseif kind == 1 then return now - window, now - now % window
  elseif kind == 0 and a > 0 then return now - window, min(now - now % a + a, 2^53 - 1)
  else return now - window, now
  end
end

-- ahead reads the headers of a request. It returns its instant: the clock or, if a history or a block is less than a second
-- ahead, the newest attempt or the begin of the block (R2). feels has the numbers of the limits whose blocks count, nil all.
local heads = {} -- the headers of the request's histories without their blocks, false without one
local blocks -- nil, or the blocks of the request's histories by their limits (R20): begin, length; whether the request feels it,
             -- and then its rest, otherwise 0; and whether its begin was corrected (R2)
local function ahead(k, count, raw, feels)
  local now = raw
  blocks = nil
  for i = 1, count do
    current = k + i
    local head = call('HGET', KEYS[k + i], 'h')
    if head and byte(head) == 4 then
      assert(#head > 14, 'weir:state the header is cut off')
      local _, begin, length = decode('>BI7I7', head)
      assert(begin < 2^53 and length < 2^53, damaged)
      blocks = blocks or {}
      blocks[i] = { begin = begin, length = length, felt = not feels or feels[i] }
      if blocks[i].felt and begin > now and begin - raw < 1000000 then now = begin end
      head = #head > 15 and sub(head, 16)
    end
    heads[i] = head
    local last = head and #head >= 8 and decode('>I7', head, 2) or raw
    if last > now and last - raw < 1000000 then now = last end
  end
  for i = 1, blocks and count or 0 do
    local block = blocks[i]
    if block then
      if block.felt and block.begin - raw >= 1000000 then block.begin, block.moved = now, true end
      block.rest = block.felt and max(0, block.length - (now - block.begin)) or 0
    end
  end
  return now
end

-- blocking returns the functions for blocks (R20). They are created on demand, as those for buckets.
local function blocking()
  -- framed adds the block of limit i to a prepared change of its history. A recording by the server's clock drops a block that is
  -- over: the newest attempt then lies behind it, so a clock that steps back does not need it (R2). The key lives at least as
  -- long as the block.
  local function framed(change, i, records, raw, now, given)
    local block = blocks and blocks[i]
    if not block or records and block.felt and block.rest == 0 and not given then return change end
    local rest = block.length - (now - block.begin)
    change[2] = encode('>BI7I7', 4, block.begin, block.length) .. change[2]
    if rest > 0 then
      local _, least = expiry(0, raw, now + rest, 0, given)
      change[9] = least
    end
    return change
  end

  -- begin begins the blocks of a denial (R20): that of the limit that denied it, or of joined calls those of the limits that
  -- denied each of them. deniers has the waits of the limits that denied. It adds their changes to the prepared ones, and
  -- returns whether a block begins.
  local function begin(plan, count, bound, deniers, writes, now, k)
    local began = false
    local function add(i)
      local length = decode('>I6', plan, 49 * count + 6 * i + 5)
      if length == 0 then return end
      began, blocks = true, blocks or {}
      blocks[i] = { begin = now, length = length, felt = true, rest = length }
      for j = 1, #writes do
        if writes[j][10] == i then return end
      end
      writes[#writes + 1] = { KEYS[k + i], heads[i] or '', 0, 0, 0, 0, nil, nil, nil, i, false }
    end

    local p = 55 * count + 11
    if p > #plan then add(bound) end
    while p <= #plan do
      local size, denier, longest = byte(plan, p), 0, 0
      for q = p + 1, p + size do
        local i = byte(plan, q)
        local wait = deniers[i]
        if wait and (denier == 0 or longest >= 0 and (wait < 0 or wait > longest)) then denier, longest = i, wait end
      end
      if denier > 0 then add(denier) end
      p = p + size + 1
    end
    return began
  end

  -- hindered returns the reply of a decision while blocks run, or nil if none does. Its numbers are those without blocks. places
  -- has the numbers of its limits, nil their order.
  local function hindered(began, places, count, bound, grant, remaining, now, wait, reset, valid, states)
    local longest, text = 0, ''
    for i = 1, count do
      local block = blocks[places and places[i] or i]
      local rest = block and block.rest or 0
      if rest > 0 then longest, valid = max(longest, rest), min(valid, rest) end
      if states ~= '' then
        local left, waits, next, pause, empty = decode('>i8i8i8i8i8', states, 40 * i - 39)
        if rest > 0 then
          next, empty = max(next, rest), max(empty, rest)
          if waits >= 0 then waits = max(waits, rest) end
        end
        text = text .. encode('>i8i8i8i8i8i8', left, waits, next, pause, empty, rest)
      end
    end
    if longest == 0 then return nil end
    if wait >= 0 then wait = max(wait, longest) end
    return encode('>BBI7i8I7i8I7I7I7', began and 5 or 4, bound, grant, min(remaining, 0), now, wait, max(reset, longest), valid,
      longest) .. text
  end

  return framed, begin, hindered
end

-- corrections returns the functions that take entries off the newest end of a history.
local function corrections()
  -- retreat finds the last older entry that has units and a mark up to `most`. It returns the entries before it in its
  -- chunk or tail and their units; the number of that chunk; its mark and its units; and the units behind it.
  local function retreat(key, s, p, from, skip, c, behind, most)
    local later = 0
    while true do
      local q, span, sum = p, 0, 0
      while q <= #s do
        local gap, n, after = entry(s, q)
        span, sum, q = span + gap, sum + n, after
      end
      local q, u, held, at, mark, units, kept = p, behind - span, 0, nil, -2^53, 0, 0
      while q <= #s and u <= most do
        local gap, n, after = entry(s, q)
        held = held + n
        if n > 0 then at, mark, units, kept = q, u, n, held end
        u, q = u + gap, after
      end
      later = later + sum - kept
      if at then return sub(s, p, at - 1), kept - units, c, mark, units, later end
      repeat -- the entries of a chunk are not read if all are later: its head and that of the chunk before it show it.
        if c == from then return '', 0, c, -2^53, 0, later end
        c = c - 1
        s, behind, sum = chunk(key, c)
        local begins, _ = -2^53, nil
        if c > from then p, _, begins = 16, chunk(key, c - 1) else p = skip end
        if begins > most then later = later + sum end
      until begins <= most
    end
  end

  -- correct returns a history after a correction of the clock at now (R2): its entries of the future are one entry of now,
  -- with that mark, of at most 2^51 - 1 units.
  local function correct(key, now, mark, newest, units, first, total, from, to, skip, late, tail)
    if newest > mark then
      local body, held, c, before, n, later = retreat(key, tail, 1, from, skip, to, newest, mark)
      local future, kept = units + later, total - units - later
      to = c
      units, late = min(future, 2^51 - 1), held
      if before == mark then units, kept = min(n + future, 2^51 - 1), kept - n
      elseif n > 0 then body, late = body .. coded(mark - before, n), late + n
      end
      tail, newest, total = body, mark, kept + units
      if from == to and body == '' then first = mark end
    end
    return newest, units, first, total, to, late, tail
  end

  return retreat, correct
end

-- history returns a history, corrected if the clock was (R2). The last two results are the number behind the stored chunks
-- and whether it was corrected.
local function history(key, stored, raw, now, cut, mark)
  local last, newest, units, first, total, promised, from, to, skip, late, tail = load(stored)
  local top, corrected = to, last - raw >= 1000000
  if corrected then
    local _, correct = corrections()
    last, newest, units, first, total, to, late, tail =
      now, correct(key, now, mark, newest, units, first, total, from, to, skip, late, tail)
  end
  -- if no older entry counts, a write deletes chunks that nothing has read.
  assert(from == top or newest > cut and units < total or call('HLEN', key) > top - from, 'weir:state a chunk is missing')
  return last, newest, units, first, total, promised, from, to, skip, late, tail, top, corrected
end

-- buckets returns the functions for buckets. Each call of a script creates its functions again, and that takes longer than
-- a decision, so those that are rarely needed are created on demand.
local function buckets()
  -- inflow returns the time in which n units flow into a bucket of rate a + b/c: microseconds and a numerator over c (R16).
  local function inflow(n, a, b, c)
    local rest = n * b
    local left = rest % c
    return n * a + (rest - left) / c, left
  end

  -- exceeds returns the time by which debt + rest/c exceeds time + part/c, rounded up; below 1 if it does not.
  local function exceeds(debt, rest, time, part) return debt - time + (rest > part and 1 or 0) end

  -- missing returns the units that flow in during debt + rest/c, rounded up. The estimate is a few units off (R16).
  local function missing(debt, rest, a, b, c)
    if debt < 0 or debt == 0 and rest == 0 then return 0 end
    local most = floor((2^51 - 1) / max(b, a + 1))
    local n = min(ceil((debt + rest / c) / (a + b / c)), most)
    while n > 0 and exceeds(debt, rest, inflow(n - 1, a, b, c)) < 1 do n = n - 1 end
    while n < most and exceeds(debt, rest, inflow(n, a, b, c)) > 0 do n = n + 1 end
    return n
  end

  -- refill returns the bucket of a header at now: its newest attempt, debt and rest; since; the time until since if that
  -- is ahead; the promise; the units that are missing; and whether a correction of the clock (R2) or another rate (R12)
  -- is to be stored.
  local function refill(head, raw, now, a, b, c)
    if not head then return -2^53, 0, 0, now, 0, 0, 0, false end
    if head ~= '' and byte(head) ~= 3 then error('weir:state version ' .. byte(head), 0) end
    if #head ~= 56 then error('weir:state the header is cut off', 0) end
    local _, last, promised, debt, rest, since, wasa, wasb, wasc = decode('>BI7I6I7I7I7I7I7I7', head)
    assert(max(last, debt, since, wasa, wasc) < 2^53 and max(rest, wasb) < wasc and wasa + wasb > 0, damaged)
    local changed = last - raw >= 1000000
    if changed then -- as much is missing as at the newest attempt.
      debt = debt - max(since - last, 0)
      if debt < 0 then debt, rest = 0, 0 end
      last, since = now, min(since, now)
    else debt = debt - (now - last)
    end
    local ahead = max(since - now, 0)
    if debt < ahead or debt == ahead and rest == 0 then debt, rest, since = ahead, 0, now + ahead end
    if wasa ~= a or wasb ~= b or wasc ~= c then
      -- whole missing units stay, and the time that the next one has waited, up to a whole unit.
      local units = missing(debt - ahead, rest, wasa, wasb, wasc)
      local time, part = inflow(units, wasa, wasb, wasc)
      local waited = exceeds(time, part, debt - ahead, rest)
      units = min(units, floor((2^51 - 1) / max(b, a + 1)))
      if units > 0 and exceeds(a, b, waited, 0) < 1 then units, waited = units - 1, 0 end
      debt, rest = inflow(units, a, b, c)
      debt, since, ahead, changed = debt - waited, now, 0, true
    end
    return last, debt, rest, since, ahead, promised, missing(debt - ahead, rest, a, b, c), changed
  end

  -- bucketed returns the header of a bucket and its new time to live. Its debt is stored as of its newest attempt (R16).
  local function bucketed(raw, now, last, debt, rest, since, promised, full, gap, a, b, c, given)
    local span = inflow(full, a, b, c) + 1
    local lives, ttl = expiry(promised, raw, max(now + span, now + 1 + debt, last + gap, raw), span, given)
    assert(debt + (now - last) < 2^53, damaged)
    return encode('>BI7I6I7I7I7I7I7I7', 3, last, lives, debt + (now - last), rest, since, a, b, c), ttl
  end

  return refill, bucketed, inflow, exceeds, missing
end

-- leaving returns the mark of the last entry that must leave until need units have left (R8). The older entries begin at a
-- place and end at the mark edge. Then comes an entry of push units with that mark, or none, and then the newest entry.
local function leaving(key, tail, to, at, s, p, u, edge, push, newest, need)
  local gone = 0
  if u < edge then at, s, p, u, gone = walk(key, tail, to, edge, at, s, p, u, 2^53 - 1, need - 1) end
  if u < edge then return u end
  return push and gone + push >= need and edge or newest
end

-- decide decides an attempt, a peek, a probe or a record: all limits record, or none (R4 to R8, R10). It returns the reply,
-- whether units were recorded, and the instant. Nothing is written before every limit is decided. A limit prepares its change
-- as if the limits after it granted as much as those before. If one grants less, the decision begins again with less.
-- A settle and an extend read the headers themselves: they pass the instant, and the numbers of the plan's limits.
local function decide(plan, op, flags, raw, given, n, _, k, now, places)
  local mode, count, form = byte(plan, 1, 3)
  now = now or ahead(k, count, raw)
  local begins = form > 1 and n > 0 and (op == 0 or op == 9) -- a denial begins blocks
  if n == 0 or op == 9 then op = 1 end
  local grant, add, full = n, op == 1 and 0 or n, true -- units granted so far, and to record
  for j = 1, blocks and op ~= 2 and count or 0 do -- a running block denies (R20).
    local block = blocks[places and places[j] or j]
    if block and block.rest > 0 then grant, add, full, begins = 0, 0, false, false end
  end
  local i, writes, states, remaining, wait, reset, valid, bound, longest, tight, least, deniers = 0
  local refill, bucketed, inflow, exceeds, missing, framed, begin, hindered
  if blocks or begins then framed, begin, hindered = blocking() end
  while i < count do
    i = i + 1
    if i == 1 then
      writes, states, remaining, wait, reset, valid, bound, tight, least = {}, '', 2^53 - 1, 0, 0, 2^53 - 1, 0, 0, 2^53 - 1
      deniers = begins and {}
    end
    local place = places and places[i] or i
    if current >= 0 then current = k + place end
    local key, block, stored, chunks, ttl, last_to = KEYS[k + place], blocks and blocks[place]
    local kind, most, window, gap, cost, a, b, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
    local units = n > 0 and cost ~= 0 and max(cost, 0) or n -- R7

    -- The history as seen at now: entries count if their mark is above cut (R3). The oldest of them is at a place.
    local last, promised, used, changed, debt, rest, since, early
    local cut, mark, newest, own, first, total, from, to, skip, late, tail, top, at, s, p, u
    if kind == 3 then
      if not refill then refill, bucketed, inflow, exceeds, missing = buckets() end
      last, debt, rest, since, early, promised, used, changed = refill(heads[place], raw, now, a, b, c)
      from, to, top = 0, 0, 0
    else
      cut, mark = seen(kind, now, window, a, b)
      if not cut then return encode('>BI7', 2, now) end
      last, newest, own, first, total, promised, from, to, skip, late, tail, top, changed =
        history(key, heads[place], raw, now, cut, mark)
      at, s, p, u, used = counting(key, tail, from, to, skip, newest, own, first, total, cut)
    end

    -- The units that this limit grants (R5, R6). A record is not denied, but its sum is bounded (R10, R16).
    local room, closed = most - used, now - last < gap or block and block.rest > 0
    local denies, again = op ~= 2 and (units > room or closed), false
    if op == 2 then
      local more = mode == 2 and kind ~= 3 and min(units, most) or units
      if used + more > (kind == 3 and floor((2^51 - 1) / max(b, a + 1)) or 2^51 - 1) then
        error('weir:overflow ' .. place .. ' ' .. string.format('%.0f', used), 0)
      end
    elseif denies then
      local grants = mode == 1 and not closed and max(0, min(room, grant)) or 0
      again = grants < grant and i > 1
      full, grant = false, min(grant, grants)
      if op == 0 and mode ~= 2 then add = grant end
    end
    if again then i = 0
    else
      -- Prepares the change: units at now (R7), or a correction of the clock or the rate (R2, R12).
      local edge, push = newest, nil
      local more, records = cost ~= 0 and cost or add, add > 0 and cost >= 0
      if kind == 3 then
        if records then
          if op == 0 and more > room then -- denied, but counted: at most until the bucket is empty.
            local time, part = inflow(most, a, b, c)
            if exceeds(time + early, part, debt, rest) > 0 then debt, rest = time + early, part end
          else
            local time, part = inflow(more, a, b, c)
            debt, rest = debt + time, rest + part
            if rest >= c then debt, rest = debt + 1, rest - c end
          end
          last, used = now, missing(debt - early, rest, a, b, c)
        end
        if records or changed and op ~= 1 then
          stored, ttl = bucketed(raw, now, last, debt, rest, since, promised, most, gap, a, b, c, given)
        end
      elseif records then
        if mode == 2 then more = min(more, most) end
        if used == 0 then -- all entries have left.
          at, s, p, u, edge, used, newest, own = to, '', 1, mark, mark, more, mark, more
        elseif mark <= newest or kind == 2 then -- a mark never runs back, and an open window takes all units.
          used, own = used + more, own + more
        else push, used, newest, own = own, used + more, mark, more
        end
        if mode == 2 then -- the newest entries that reach max are kept (R6).
          used, own = used - max(own - most, 0), min(own, most)
          local spare, gone = used - most, 0
          if spare >= 0 and u < edge then at, s, p, u, gone = walk(key, tail, to, edge, at, s, p, u, 2^53 - 1, spare) end
          used, spare = used - gone, spare - gone
          if u == edge and push and push <= spare then used, push, u, edge = used - push, nil, newest, newest end
          if used == 0 then newest, u, edge = -2^53, -2^53, -2^53 end
        end
        local body = at == to and sub(s, p) or tail
        skip, last_to = p, to
        if at == to then skip, late = 16, used - own - (push or 0) end
        if push then body, late = body .. coded(mark - edge, push), late + push end
        if #body > CHUNK then
          chunks, body, last_to, late = { to, encode('>I7I7B', newest, late, #body) .. body }, '', to + 1, 0
        end
        local ends = max(kind == 1 and b > 0 and b or newest + window, now + gap, raw)
        last, promised, ttl = now, expiry(promised, raw, ends, window, given)
        stored = header(now, newest, own, u, used, promised, at, last_to, skip, late, body)
      elseif changed and op ~= 1 then
        stored = header(last, newest, own, first, total, promised, from, to, skip, late, tail)
      end
      if block and block.moved and op ~= 1 then stored = stored or heads[place] or '' end

      -- The waits after it: until n units fit, until the next unit is there, until the interval is over, until none counts (R8).
      local pause, waits, next, empty = max(0, last - now + gap), 0, 0, 0
      if kind == 3 then
        if units > most - used then waits = exceeds(debt, rest, inflow(most - units, a, b, c)) end
        if used > 0 then next, empty = exceeds(debt, rest, inflow(used - 1, a, b, c)), exceeds(debt, rest, 0, 0) end
      elseif used > 0 then
        local need, mark1, marks = used + units - most
        if need > 0 and units <= most then marks = leaving(key, tail, to, at, s, p, u, edge, push, newest, need) end
        if not full or flags % 2 == 1 then
          mark1 = need == 1 and marks or leaving(key, tail, to, at, s, p, u, edge, push, newest, 1)
        end
        if kind == 1 and b > 0 then newest, marks, mark1 = b - window, marks and b - window, b - window end -- all leave at its end.
        empty, next = newest - now + window, mark1 and mark1 - now + window or 0
        waits = marks and marks - now + window or 0
      end
      waits = units > most and -1 or max(waits, pause, block and block.rest or 0)

      -- The answer of all limits.
      remaining, reset = min(remaining, most - used), max(reset, empty)
      wait = (wait < 0 or waits < 0) and -1 or max(wait, waits)
      valid = min(valid, next > 0 and next or valid, pause > 0 and pause or valid)
      if room < least then tight, least = i, room end
      denies = denies and (mode ~= 1 or room <= 0 or closed)
      if denies and (bound == 0 or longest >= 0 and (waits < 0 or waits > longest)) then bound, longest = i, waits end
      if denies and deniers then deniers[i] = waits end
      if flags % 2 == 1 then states = states .. encode('>i8i8i8i8i8', most - used, waits, next, pause, empty) end
      if stored and i == count and not blocks and not begins then
        write(key, stored, from, last_to and at or from, last_to or to, top, chunks, ttl)
      elseif stored then
        writes[#writes + 1] = { key, stored, from, last_to and at or from, last_to or to, top, chunks, ttl, nil, place, records }
      end
    end
  end
  local began = begins and not full and grant == 0 and begin(plan, count, bound, deniers, writes, now, k)
  for j = 1, #writes do
    local change = writes[j]
    write(unpack(blocks and framed(change, change[10], change[11], raw, now, given) or change, 1, 9))
  end
  if full then bound, valid = 0, 0 elseif grant > 0 then bound = tight end
  local reply = blocks and hindered(began, places, count, bound, grant, remaining, now, wait, reset, valid, states)
  return reply or encode('>BBI7i8I7i8I7I7', 0, bound, grant, remaining, now, wait, reset, valid) .. states, add > 0, now
end

-- operations returns the functions for remembered operations and reservations.
local function operations()
  -- recall returns a remembered operation and the place behind its limit, or nil (R15).
  local function recall(key)
    local known = call('GET', key)
    if not known then return nil end
    assert(byte(known) == 3, 'weir:state the operation is of another version')
    local place = #known > 75 and 77 + byte(known, 76)
    local reserves = place and #known > place + 64 and #known == place + 65 + byte(known, place + 65)
    assert(reserves or place and #known == place - 1, 'weir:state the operation is cut off')
    local _, _, _, _, ends, _, granted, _, at, wait, reset, valid, rest = decode('>BBI7I7I7BI7i8I7i8I7I7I7', known)
    assert(max(granted, at, wait, reset, valid, rest) < 2^53 and ends < 2^54 and wait >= -1, 'weir:state the operation is damaged')
    return known, place
  end

  -- A reservation is a table: units, at (the instant of the newest grant), newest (its units), held (the units of the attempt),
  -- hold (the instant of the hold, -1 none), expires, actual (the units of the settlement, -1 open), refunded and settled (units
  -- and instant of the reply to it), extended (the reply to the newest extension with units, or '').
  local RESERVED = '>I7I7I7I7i8I7i8I7I7'

  -- reserved returns the reservation behind an operation, or nil.
  local function reserved(known, place)
    if place > #known then return nil end
    local r, size = {}, 0
    r.units, r.at, r.newest, r.held, r.hold, r.expires, r.actual, r.refunded, r.settled = decode(RESERVED, known, place)
    r.extended = sub(known, place + 66)
    size = #r.extended
    assert(max(r.units, r.newest, r.held, r.actual, r.refunded) < 2^51 and max(r.at, r.hold, r.settled) < 2^53 and
      r.expires < 2^54 and min(r.hold, r.actual) >= -1 and (size == 0 or size == 45), 'weir:state the reservation is damaged')
    return r
  end

  -- packed returns the bytes of a reservation behind its operation.
  local function packed(r)
    return encode(RESERVED, r.units, r.at, r.newest, r.held, r.hold, r.expires, r.actual, r.refunded, r.settled) ..
      encode('B', #r.extended) .. r.extended
  end

  -- described returns the end of a reply: a reservation, or none for nil.
  local function described(r)
    if not r then return encode('>I7I7i8i8', 0, 0, -1, -1) end
    return encode('>I7I7i8i8', r.units, r.expires, r.hold, r.actual)
  end

  -- holds returns the shortest and the longest hold of the concurrency limits of a plan (R17), or nil without any.
  local function holds(plan)
    local shortest, longest
    for i = 1, byte(plan, 2) do
      local kind, _, window, _, _, _, _, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
      if kind == 0 and c == 1 then
        shortest, longest = min(shortest or window, window), max(longest or 0, window)
      end
    end
    return shortest, longest
  end

  return recall, reserved, packed, described, holds
end

-- others returns the functions that decide refunds and counts, by their operations.
local function others(op)
  local retreat, refill, bucketed, inflow = corrections(), buckets()
  local framed = blocking()

  -- simple returns the reply of a refund or a count.
  local function simple(units, now) return encode('>BBI7i8I7i8I7I7', 0, 0, units, 0, now, 0, 0, 0) end

  -- struck returns s after up to want units were taken from its entries from p on, or from the first of them only, and the
  -- units taken. Entries without units stay until they are the oldest.
  local function struck(s, p, want, single)
    local text, took, q = sub(s, 1, p - 1), 0, p
    repeat
      local gap, n, after = entry(s, q)
      local units = min(n, want - took)
      text, took, q = text .. coded(gap, n - units), took + units, after
    until single or took == want or q > #s
    return text .. sub(s, q), took
  end

  -- thinned returns a chunk after units were taken from its entries; its head is of before.
  local function thinned(s, took)
    local behind, units = decode('>I7I7', s)
    return encode('>I7I7B', behind, units - took, #s - 15) .. sub(s, 16)
  end

  -- taken returns the units that a refund takes of one history, and the prepared change (R10). No other entry changes, not
  -- even one that no longer counts: the newest attempt does not move, so a later decision may be at an earlier instant (R2).
  local function taken(key, stored, raw, now, want, granted, kind, window, a, b)
    local cut, mark = seen(kind, now, window, a, b)
    local last, newest, own, first, total, promised, from, to, skip, late, tail, top, changed =
      history(key, stored, raw, now, cut, mark)
    local at, s, p, u = from, nil, skip, first
    if from == to then s, p = tail, 1 end
    local took, more, gone, left, after, got, _ = 0, {}, 0
    if want > 0 and newest > cut and granted <= 2^53 - 1 then
      if kind == 1 and b > 0 then mark = a <= granted and granted < b and newest or -2^53
      elseif kind == 2 and newest <= granted and granted - newest < window then mark = newest
      else _, mark = seen(kind, granted, window, a, b)
      end
      if mark == newest then took, own = min(want, own), max(own - want, 0)
      elseif mark > cut and mark < newest then
        local c, text, q, at_mark = walk(key, tail, to, newest, at, s, p, u, mark - 1, 2^53 - 1)
        if at_mark == mark then
          after, took = struck(text, q, want, true)
          if c == to then tail, late = after, late - took else more = { c, thinned(after, took) } end
          if c == at and q == p then -- it may be the oldest.
            at, s, p, u = walk(key, tail, to, newest, at, after, p, u, -2^53, 0)
            if c < at then more = {} end
          end
        end
      end
    elseif want > 0 and newest > cut then -- the oldest that count.
      local c, text, q, from_mark, used = counting(key, tail, from, to, skip, newest, own, first, total, cut)
      gone, took = total - used, min(want, used)
      if took == total - gone then own = 0
      elseif gone == 0 then -- the oldest leave the history.
        at, s, p, u, left = walk(key, tail, to, newest, at, s, p, u, 2^53 - 1, took)
        left = took - left
        if u == newest then own = own - left
        elseif left > 0 then
          after = struck(s, p, left, true)
          if at == to then tail, s = after, after else more = { at, thinned(after, left) } end
        end
      else
        left = took
        while left > 0 and c < to do
          text = text or chunk(key, c)
          local behind, units = decode('>I7I7', text)
          if q == 16 and units <= left then after, got = sub(text, 1, 15) .. coded(behind - from_mark, 0), units
          else after, got = struck(text, q, left)
          end
          more[#more + 1], more[#more + 2] = c, thinned(after, got)
          c, from_mark, text, q, left = c + 1, behind, nil, 16, left - got
          if c == to then q = 1 end
        end
        if left > 0 and q <= #tail then
          tail, got = struck(tail, q, left)
          late, left = late - got, left - got
        end
        own = own - left
      end
    end
    total = total - took
    local body = sub(tail, at == to and p or 1)
    if own == 0 and took > 0 then -- the last older entry with units is the newest.
      body, late, to, newest, own = retreat(key, tail, 1, from, skip, to, newest, granted > 2^53 - 1 and cut or newest - 1)
      at, p, u = from, skip, first
      if body == '' and to == from then u = newest end
    elseif at == to then p, late = 16, total - own
    end
    if took == 0 and not changed then return 0, nil end
    if total == 0 then body, at, to = '', to, to end
    return took, { key, header(last, newest, own, u, total, promised, at, to, p, late, body), from, at, to, top, #more > 0 and more or nil }
  end

  -- back returns the units that limit i gives back of up to n units of the entry granted at an instant, or of the oldest that
  -- count, and the prepared change (R10). It returns nil if now is outside of the window of a Period. A cost stays, because the
  -- attempt was made, but a hold ends whole (R17).
  local function back(plan, i, raw, now, given, n, granted, k)
    current = k + i
    local key = KEYS[current]
    local kind, capacity, window, gap, cost, a, b, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
    local want, took, change = n > 0 and (cost == 0 and n or kind == 0 and c == 1 and cost) or 0, 0, nil
    if kind == 3 then
      local last, debt, rest, since, _, promised, used, changed = refill(heads[i], raw, now, a, b, c)
      -- a grant from before the bucket was last full has flowed in again (R16).
      if granted > 2^53 - 1 or since <= granted and granted <= last then took = min(want, used) end
      local time, part = inflow(took, a, b, c)
      debt, rest = debt - time, rest - part
      if rest < 0 then debt, rest = debt - 1, rest + c end
      if debt < last - now then debt, rest = last - now, 0 end -- no attempt is earlier than the newest (R2).
      if took > 0 or changed then
        local head, ttl = bucketed(raw, now, last, debt, rest, since, promised, capacity, gap, a, b, c, given)
        change = { key, head, 0, 0, 0, 0, nil, ttl }
      end
    elseif not seen(kind, now, window, a, b) then return nil
    else took, change = taken(key, heads[i], raw, now, want, granted, kind, window, a, b)
    end
    return took, change and framed(change, i, false, raw, now, given)
  end

  -- refund takes back up to n units of the entry granted at an instant, or of the oldest that count, in every limit (R10).
  -- A refund of nothing writes nothing.
  local function refund(plan, _, _, raw, given, n, granted, k)
    local count, writes, most = byte(plan, 2), {}, 0
    local now = ahead(k, count, raw, {})
    for i = 1, count do
      local took, change = back(plan, i, raw, now, given, n, granted, k)
      if not took then return encode('>BI7', 2, now) end
      writes[#writes + 1] = change
      most = max(most, min(took, n))
    end
    for i = 1, most > 0 and #writes or 0 do write(unpack(writes[i], 1, 9)) end
    return simple(most, now), most > 0, now
  end

  -- count returns the units of one limit that were recorded in a span before now (R11).
  local function count(plan, _, _, raw, _, _, span, k)
    local now = ahead(k, 1, raw, {})
    local kind, _, window, _, _, a, b = decode('>BI7I6I6i8I7I7I7', plan, 11)
    local cut, mark = seen(kind, now, window, a, b)
    if not cut then return encode('>BI7', 2, now) end
    if kind ~= 1 or b == 0 then cut = now - span end
    local _, newest, own, first, total, _, from, to, skip, _, tail = history(KEYS[k + 1], heads[1], raw, now, cut, mark)
    local _, _, _, _, used = counting(KEYS[k + 1], tail, from, to, skip, newest, own, first, total, cut)
    return simple(used, now)
  end

  -- block blocks all histories of the request for a time from now, or until the end of a running block if that is later. A time
  -- of 0 ends the blocks (R20).
  local function block(plan, _, _, raw, given, _, length, k)
    local count, longest = byte(plan, 2), 0
    local now = ahead(k, count, raw)
    for i = 1, count do
      local form = heads[i] and byte(heads[i]) or 1
      if form and form > 3 then error('weir:state version ' .. form, 0) end
    end
    for i = 1, count do
      local key, was = KEYS[k + i], blocks and blocks[i]
      if length > 0 then
        local rest = max(length, was and was.rest or 0)
        blocks = blocks or {}
        blocks[i] = { begin = now, length = rest, felt = true, rest = rest }
        write(unpack(framed({ key, heads[i] or '', 0, 0, 0, 0 }, i, false, raw, now, given), 1, 9))
        longest = max(longest, rest)
      elseif was and heads[i] then write(key, heads[i], 0, 0, 0, 0)
      elseif was then current = call('HDEL', key, 'h') and -1
      end
    end
    if length == 0 then return simple(0, now) end
    return encode('>BBI7i8I7i8I7I7I7', 5, 0, 0, 0, now, 0, longest, 0, longest)
  end

  -- reservations returns the functions that decide settlements and extensions of reservations (R19).
  local function reservations()
    local recall, reserved, packed, described, holds = operations()
    -- find returns the reservation of a request: its operation, the place behind the limit there, and its table.
    local function find(plan, raw, k)
      current = k + byte(plan, 2) + 1
      local known, place = recall(KEYS[current])
      local r = known and raw < decode('>I7', known, 17) and reserved(known, place)
      if not r then error('weir:expired unknown', 0) end
      return known, place, r
    end

    -- lives raises an error unless a reservation lives at the clock.
    local function lives(r, raw)
      if raw >= r.expires then error('weir:expired life ' .. string.format('%.0f', r.units), 0) end
    end

    -- keep stores a reservation after a change at now. It is remembered until the end of its life, and for a minute at least.
    local function keep(known, place, r, raw, now, given, k, plan)
      local ends = max(decode('>I7', known, 17), r.expires, now + 60000000)
      local _, ttl = expiry(0, raw, ends, 0, given)
      current = call('SET', KEYS[k + byte(plan, 2) + 1], sub(known, 1, 16) .. encode('>I7', ends) .. sub(known, 24, place - 1) ..
        packed(r), 'PX', ttl) and -1
    end

    -- part returns a plan of some limits without blocks, given by their numbers. costs has those costs that differ.
    local function part(plan, mode, places, costs)
      local text = encode('BBB', mode, #places, 0) .. sub(plan, 4, 10)
      for j = 1, #places do
        local p = 49 * places[j] - 38
        text = text .. sub(plan, p, p + 19) .. (costs and encode('>i8', costs[j]) or sub(plan, p + 20, p + 27)) ..
          sub(plan, p + 28, p + 48)
      end
      return text
    end

    -- kinds returns the numbers of the limits that are no concurrency limits and have no cost, and whether each limit is a
    -- concurrency limit.
    local function kinds(plan)
      local free, held = {}, {}
      for i = 1, byte(plan, 2) do
        local kind, _, _, _, cost, _, _, c = decode('>BI7I6I6i8I7I7I7', plan, 49 * i - 38)
        held[i] = kind == 0 and c == 1
        if not held[i] and cost == 0 then free[#free + 1] = i end
      end
      return free, held
    end

    local function settle(plan, _, _, raw, given, n, _, k)
      local known, place, r = find(plan, raw, k)
      local actual = n > 2^53 - 1 and r.units or n
      if r.actual >= 0 and actual ~= r.actual then error('weir:settled ' .. string.format('%.0f', r.actual), 0) end
      if r.actual >= 0 then
        return encode('B', 1) .. sub(simple(r.refunded, r.settled), 2) .. encode('>I7B', 0, 0) .. described(r)
      end
      lives(r, raw)
      local mode, count = byte(plan, 1, 2)
      local now = ahead(k, count, raw, {})
      local free, held = kinds(plan)
      local changes, ended, refunded = {}, 0, 0
      for i = 1, count do
        local want, granted = max(0, min(r.units - actual, r.newest)), r.at
        if held[i] then want, granted = r.hold >= 0 and r.held or 0, r.hold end
        local took, change = back(plan, i, raw, now, given, want, granted, k)
        if not took then return encode('>BI7', 2, now) end
        changes[#changes + 1] = change
        if held[i] then ended = max(ended, took) else refunded = max(refunded, took) end
      end
      if n > 2^53 - 1 and r.hold >= 0 and holds(plan) and ended == 0 then error('weir:expired hold', 0) end
      local records = actual > r.units and #free > 0
      if records then -- the changes of these limits are none but corrections, and are replaced.
        decide(part(plan, mode, free), 2, 0, raw, given, actual - r.units, 0, k, now, free)
        for _, i in ipairs(free) do
          for j = #changes, 1, -1 do
            if changes[j][1] == KEYS[k + i] then table.remove(changes, j) end
          end
        end
      end
      for j = 1, (records or ended > 0 or refunded > 0) and #changes or 0 do write(unpack(changes[j], 1, 9)) end
      r.actual, r.refunded, r.settled = actual, refunded, now
      keep(known, place, r, raw, now, given, k, plan)
      return simple(refunded, now) .. described(r)
    end

    local function extend(plan, _, _, raw, given, n, before, k)
      local known, place, r = find(plan, raw, k)
      if r.actual >= 0 then error('weir:settled ' .. string.format('%.0f', r.actual), 0) end
      lives(r, raw)
      local says = n > 0 and before <= 2^53 - 1 and before ~= r.units
      if says and r.extended ~= '' and before + n == r.units and n == r.newest then
        return encode('B', 1) .. r.extended .. encode('>I7B', 0, 0) .. described(r)
      end
      if says or r.units + n > 2^51 - 1 then error('weir:units ' .. string.format('%.0f', r.units), 0) end
      local count, free, held = byte(plan, 2), kinds(plan)
      local takes = {}
      for _, i in ipairs(free) do takes[i] = n > 0 end
      local now = ahead(k, count, raw, takes)
      local shortest, longest = holds(plan)
      local renews = r.hold >= 0 and shortest
      if renews and now - r.hold >= shortest then error('weir:expired hold', 0) end

      -- The changes: the end of the holds, and corrections of the other limits that take nothing.
      local changes, places, costs, moved = {}, {}, {}, 0
      for i = 1, count do
        if not takes[i] then
          local took, change = back(plan, i, raw, now, given, held[i] and renews and r.held or 0, r.hold, k)
          if not took then return encode('>BI7', 2, now) end
          changes[#changes + 1] = change
          if took > 0 then places[#places + 1], costs[#costs + 1] = i, took end
          moved = max(moved, took)
        end
      end
      if renews and moved == 0 then error('weir:expired hold', 0) end
      local reply, further, renewal = simple(n, now), n > 0 and #free > 0, part(plan, 0, places, costs)
      if further then -- as an attempt under the limits that take units; a denial changes nothing.
        reply = decide(part(plan, 0, free), 1, 0, raw, given, n, 0, k, now, free)
        local first, bound = byte(reply, 1, 2)
        if first == 2 then return reply end
        if bound > 0 then return char(first, free[bound]) .. sub(reply, 3) .. described(r) end
      end
      if moved > 0 then decide(renewal, 1, 0, raw, given, 1, 0, k, now, places) end -- errors are raised before the first write.
      for j = 1, (further or moved > 0) and #changes or 0 do write(unpack(changes[j], 1, 9)) end
      if moved > 0 then
        for _, i in ipairs(places) do
          heads[i] = call('HGET', KEYS[k + i], 'h')
          if byte(heads[i]) == 4 then heads[i] = sub(heads[i], 16) end
        end
        decide(renewal, 2, 0, raw, given, 1, 0, k, now, places)
      end
      if further then reply = decide(part(plan, 0, free), 0, 0, raw, given, n, 0, k, now, free) end
      if n > 0 then r.units, r.at, r.newest, r.extended = r.units + n, now, n, sub(reply, 2, 46) end
      local ttl = decode('>I7', known, 10)
      r.expires = now + ttl
      if renews then r.hold, r.expires = now, now + max(ttl, longest) end
      keep(known, place, r, raw, now, given, k, plan)
      return reply .. described(r)
    end

    return settle, extend
  end

  local settle, extend = nil, nil
  if op == 6 or op == 7 then settle, extend = reservations() end
  return { [3] = refund, [4] = count, [6] = settle, [7] = extend, [8] = block }
end

-- once decides a request, or returns the reply of an operation with its id (R15).
local function once(plan, op, flags, raw, given, n, from, k)
  local run = op > 2 and op < 9 and others(op)[op] or decide
  if flags < 2 or op > 5 then return run(plan, op, flags, raw, given, n, from, k) end
  current = k + byte(plan, 2) + 1
  local key = KEYS[current]
  local recall, reserved, packed, described, holds = operations()
  local known, place = recall(key)
  if known then
    local _, wasop, wasn, wasfrom, ends = decode('>BBI7I7I7', known)
    if raw < ends then
      local differs = wasop ~= op or wasn ~= n or wasfrom ~= from
      if op == 0 then differs = wasop ~= op or wasn ~= n or (wasfrom > 0) ~= (from > 0) end -- the life itself may differ (R19).
      local opens = wasop == 0 and wasfrom > 0 and ' reserved' or ''
      if differs then error('weir:id ' .. wasop .. ' ' .. string.format('%.0f', wasn) .. opens, 0) end
      local reservation = op == 0 and from > 0 and described(reserved(known, place)) or ''
      return encode('B', 1) .. sub(known, 24, place - 1) .. reservation
    end
  end
  local reply, recorded, now = run(plan, op, flags, raw, given, n, from, k)
  local text, reservation, ends = '', nil, nil
  if recorded then -- stored with the histories, or not at all.
    local bound, granted = decode('>BI7', reply, 2)
    local name, rest = '', byte(reply) > 3 and sub(reply, 47, 53) or encode('>I7', 0)
    if bound > 0 then
      name = string.match(KEYS[k + bound], '}([^:/]+)') .. sub(plan, 49 * bound - 38, 49 * bound + 10) .. sub(plan, 2, 2)
    end
    ends = now + decode('>I7', plan, 4)
    if op == 0 and from > 0 and granted > 0 then
      reservation = { units = granted, at = now, newest = granted, held = granted, hold = holds(plan) and now or -1,
        expires = now + from, actual = -1, refunded = 0, settled = 0, extended = '' }
      ends = max(now + from, now + 60000000)
      text = packed(reservation)
    end
    text = encode('>BBI7I7I7', 3, op, n, from, ends) .. sub(reply, 2, 46) .. rest .. encode('B', #name) .. name .. text
    local _, ttl = expiry(0, raw, ends, 0, given)
    call('SET', key, text, 'PX', ttl)
  end
  return op == 0 and from > 0 and byte(reply) ~= 2 and reply .. described(reservation) or reply
end

requests(decide, once)
return table.concat(replies)
