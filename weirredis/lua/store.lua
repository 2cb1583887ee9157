-- Reading and writing the hash of a history or a bucket. layout.lua has its layout.
--
-- A block (R20) is a table:
--   begin, length: as in the layout
--   head   the header behind it, '' for none
--   rest   time until it is over, or 0; ends: the instant of that
--   moved  whether its begin was corrected (R2)

-- read_header returns the header of a history without its block, or nil, and its block, or nil.
local function read_header(key)
  local head = call('HGET', key, 'h')
  if not head or byte(head) ~= 4 then return head end
  if #head < 15 then error('weir:state the header is cut off', 0) end
  local _, begin, length = decode('>BI7I7', head)
  if begin >= 2^53 or length >= 2^53 then error('weir:state the header is damaged', 0) end
  head = sub(head, 16)
  return #head > 0 and head, { begin = begin, length = length, head = head }
end

-- see_block computes the rest of a block at now, and returns it; or 0 if blocks do not count for
-- the request (felt is false). A block that begins a second or more ahead begins now (R2).
local function see_block(block, now, felt)
  if felt and block.begin - raw >= 1000000 then block.begin, block.moved = now, true end
  block.rest = math.max(0, block.length - (now - block.begin))
  block.ends = now + block.rest
  return felt and block.rest or 0
end

-- The writes that wait until all limits have decided; nil = none.
local queue

-- write stores a header with its block, the changed chunks and a new time to live; if waits is
-- true, after all limits have decided. It deletes the chunks whose units have all left, and those
-- after the last one. The key lives at least as long as a block runs.
local function write(waits, key, head, chunks, ttl, block)
  if waits then
    queue = queue or {}
    queue[#queue + 1] = { key, head, chunks, ttl, block }
    return
  end
  if chunks and (chunks.from > chunks.stored or chunks.top) then
    local dead = {}
    for number = chunks.stored, chunks.from - 1 do dead[#dead + 1] = number end
    for number = chunks.to, (chunks.top or 0) - 1 do dead[#dead + 1] = number end
    for i = 1, #dead, 1000 do
      call('HDEL', key, unpack(dead, i, math.min(i + 999, #dead)))
      current = -1
    end
  end
  if block then head = encode('>BI7I7', 4, block.begin, block.length) .. head end
  local changed = chunks and chunks.changed
  if not changed then call('HSET', key, 'h', head)
  else
    for i = 1, #changed, 200 do
      call('HSET', key, 'h', head, unpack(changed, i, math.min(i + 199, #changed)))
      current = -1
    end
  end
  current = -1
  if ttl then call('PEXPIRE', key, ttl) end
  if block and block.rest > 0 then
    local _, least = renew(0, block.ends, 0)
    if call('PTTL', key) < least then call('PEXPIRE', key, least) end
  end
end
