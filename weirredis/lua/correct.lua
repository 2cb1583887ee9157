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
