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
