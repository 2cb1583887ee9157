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
