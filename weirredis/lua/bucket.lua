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
