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
