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
