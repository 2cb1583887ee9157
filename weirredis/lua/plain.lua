-- Decides plain attempts: of one unit under rolling limits, or of some units under a single one.
--
-- decide.lua has the same rules for everything. This file repeats them for the shapes that almost
-- all histories have: no block, no corrected clock, no chunk that begins or ends. It leaves all
-- else to decide.lua before a change. The reason is cost: a server makes the functions of a script
-- again in every call, and here it makes only those before the last lines, unless an attempt is
-- left. An attempt of one unit takes 0.72 of the server's instructions that it takes without this
-- file, 0.71 with 64 in a call, and one of 7 units 0.77:
-- `cd bench && go run ./redis/instructions -rev REVISION`.
--
-- A limit prepares its change before the limits after it decide, and writes it if all of them
-- grant. So nothing is written before every limit has decided.

-- The header of a new history.
local NEW = '\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- The answer of all limits. Each call of decide_plain adds its limit's part after that of the
-- limits behind it.
local bound, remaining, wait, reset, valid

-- find_leaving returns the mark of the last entry that must leave until so many units have left
-- (R8). It reads text from place i on, where an entry of the given mark stands. It returns nil and
-- the missing units if the entries in text are not enough.
local function find_leaving(text, i, mark, units)
  while i <= #text do
    local gap, more, after = decode_number(text, i)
    local n = 1
    if more then n, more, after = decode_number(text, after) end
    if units <= n then return mark, 0 end
    units, mark, i = units - n, mark + gap, after
  end
  return nil, units
end

-- decide_plain decides limit i of count and those after it for n units. granted: all limits before
-- it grant. It returns whether all grant, and for the first limit the reply. It returns nil if
-- decide must decide, and then nothing has changed. Names: raw is the instant of the request, and
-- entries with marks up to cut no longer count. layout.lua has the fields of a header.
function decide_plain(plan, k, n, count, i, granted)
  local key, most, window = KEYS[k + i], decode('>I7I6', plan, 49 * i - 37)
  local head, cut = call('HGET', key, 'h') or NEW, raw - window
  local form, last, first, promised, own, units, newest, from, chunks, skip, late, tail, size
  if byte(head) == 2 then
    form, last, first, promised, own, units, newest, from, chunks, skip, late, tail, size =
      decode(LONG, head)
    if newest ~= last or chunks == 0 or units == 0 or last <= cut then return nil end
  else form, last, first, promised, own, units, tail, size = decode(SHORT, head)
  end
  if form < 1 or form > 2 or last > raw or first > last or #head ~= size - 1 then return nil end
  if units > most or units > 2^31 or units < own or own == 0 and units > 0 then return nil end

  -- The oldest entries have left (R3).
  local text, place = tail, 1
  if last <= cut then units = 0
  elseif first <= cut then
    if form == 2 then text, place = call('HGET', key, from), skip end
    repeat
      local gap, more, after = decode_number(text, place)
      local gone = 1
      if more then gone, more, after = decode_number(text, after) end
      first, units, place = first + gap, units - gone, after
    until first > cut
    if form == 1 then tail = sub(tail, place)
    elseif place <= #text then skip = place
    else return nil
    end
    if units < own or first > last then return nil end
    if place <= #text and byte(text, place) > 127 then
      local _, _, after = decode_number(text, place)
      if decode_number(text, after) == 0 then return nil end
    end
  end

  -- The change.
  granted = granted and units + n <= most
  local missing, before, stored, ttl = n + units - most, own, nil, nil
  if granted then
    local body = ''
    if units == 0 then first, own = raw, n
    elseif last == raw then body, own = tail, own + n
    else body, late, own = tail .. encode_entry(raw - last, own), late and late + own, n
    end
    if #body > CHUNK or own > 65535 then return nil end
    promised, ttl = renew(promised, raw + window, window)
    if form == 1 then
      stored = encode(SHORT, 1, raw, first, promised, own, units + n, #body, body)
    else
      stored = encode(LONG, 2, raw, first, promised, own, units + n, raw, from, chunks, skip, late,
        #body, body)
    end
    missing = missing + n
  end

  -- The mark of the last entry that must leave until n units fit (R8).
  local leaves = first
  if n > 1 and missing > 0 then
    if n > most then return nil end
    if form == 2 and text == tail then text, place = call('HGET', key, from), skip end
    leaves = nil
    if units > 0 then leaves, missing = find_leaving(text, place, first, missing) end
    if leaves and leaves > last then return nil end
    if not leaves then
      if form == 2 then return nil end
      leaves = (units == 0 or missing > before) and raw or last
    end
  end

  if i == count then bound, remaining, wait, reset, valid = 0, 2^53 - 1, 0, 0, 2^53 - 1
  else
    granted = decide_plain(plan, k, n, count, i + 1, granted)
    if granted == nil then return nil end
  end
  if granted then
    call('HSET', key, 'h', stored)
    current = -1
    if ttl then call('PEXPIRE', key, ttl) end
    units, last = units + n, raw
  end
  if units + n > most and leaves - cut >= wait then bound, wait = i, leaves - cut end
  if most - units < remaining then remaining = most - units end
  if units > 0 then
    if last - cut > reset then reset = last - cut end
    if first - cut < valid then valid = first - cut end
  end
  if i > 1 then return granted end
  if granted then return encode('>BBI7i8I7i8I7I7I7', 0, 0, n, remaining, raw, wait, reset, 0, 0) end
  if byte(plan, 3) > 1 then return nil end -- the denial may begin a block (R20).
  return encode('>BBI7i8I7i8I7I7I7', 0, bound, 0, remaining, raw, wait, reset, valid, 0)
end

answer()
if #replies == #ARGV[1] / 24 then return table.concat(replies) end
