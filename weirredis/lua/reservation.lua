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
