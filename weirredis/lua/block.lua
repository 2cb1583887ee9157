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
