-- documents keeps a collection of small named texts (engine.Documents) in one hash:
--
--   #        layout, number and version of the last change: "1 12 1790000000000000"
--   cSLOT    version and name of a change; SLOT is its number modulo 256
--   dNAME    version, end and text of a document; the end is 0, or microseconds since 1970
--
-- A version is the instant of the change in microseconds, and greater than the one before. So it is
-- not used again when a server has lost its last changes.
--
-- KEYS   the hash
-- ARGV   write, the version to replace (-1 = any), the time to live in microseconds (0 = none), the
--        largest number of documents, the name, the text ("" deletes);
--        or read, the version since which changes are wanted, the cursor of HSCAN ("" at first)
-- reply  parts, each as LENGTH:BYTES
--        of write: stored, conflict or full; the version and the text that are there now
--        of read: the version; 1 if all documents follow, else 0; the next cursor, "0" at the end;
--        then the name, the version and the text of each document, "" if it was deleted
local SLOTS, PAGE = 256, '500'
local key, time = KEYS[1], redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function integer(n) return string.format('%.0f', n) end

local function reply(parts)
  for i, part in ipairs(parts) do parts[i] = #part .. ':' .. part end
  return table.concat(parts)
end

-- parse returns the version and the text of a field, nil if it is missing or has ended.
local function parse(value)
  local _, last, version, ends = string.find(value or '', '^(%d+) (%d+) ')
  if not last or (ends ~= '0' and tonumber(ends) <= now) then return nil end
  return version, string.sub(value, last + 1)
end

local head, number, version = redis.call('HGET', key, '#'), 0, '0'
if head then
  local layout, n, v = string.match(head, '^(%d+) (%d+) (%d+)$')
  if layout ~= '1' then
    return redis.error_reply('weir:state these documents have a layout other than 1')
  end
  number, version = tonumber(n), v
end

local function write(expected, ttl, most, name, text)
  local present, before = parse(redis.call('HGET', key, 'd' .. name))
  if expected ~= '-1' and expected ~= (present or '0') then
    return reply({ 'conflict', present or '0', before or '' })
  end
  if text == '' and not present then return reply({ 'stored', '0', '' }) end
  if not present and redis.call('HLEN', key) - math.min(number, SLOTS) > tonumber(most) then
    return reply({ 'full', '0', '' })
  end
  number = number + 1
  version = integer(math.max(now, tonumber(version) + 1))
  local ends = ttl == '0' and '0' or integer(now + tonumber(ttl))
  local slot = 'c' .. (number % SLOTS)
  head = '1 ' .. integer(number) .. ' ' .. version
  if text == '' then
    redis.call('HSET', key, '#', head, slot, version .. ' ' .. name)
    redis.call('HDEL', key, 'd' .. name)
    return reply({ 'stored', '0', '' })
  end
  redis.call('HSET', key, '#', head, slot, version .. ' ' .. name,
    'd' .. name, version .. ' ' .. ends .. ' ' .. text)
  return reply({ 'stored', version, text })
end

-- changes returns the names that have changed since a version, nil if that is not known any more.
local function changes(since)
  local names, seen = {}, {}
  for n = number, math.max(1, number - SLOTS + 1), -1 do
    local change = redis.call('HGET', key, 'c' .. (n % SLOTS))
    local v, name = string.match(change or '', '^(%d+) (.*)$')
    if v == since then return names end
    if name and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  return nil
end

local function read(since, cursor)
  if cursor == '' and since == version then return reply({ version, '0', '0' }) end
  local names = cursor == '' and changes(since)
  if names then
    local parts = { version, '0', '0' }
    for _, name in ipairs(names) do
      local v, text = parse(redis.call('HGET', key, 'd' .. name))
      parts[#parts + 1], parts[#parts + 2], parts[#parts + 3] = name, v or '0', text or ''
    end
    return reply(parts)
  end
  local page = redis.call('HSCAN', key, cursor == '' and '0' or cursor, 'COUNT', PAGE)
  local parts, fields = { version, '1', page[1] }, page[2]
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 'd' then
      local v, text = parse(fields[i + 1])
      if v then
        parts[#parts + 1], parts[#parts + 2], parts[#parts + 3] = string.sub(fields[i], 2), v, text
      else
        redis.call('HDEL', key, fields[i])
      end
    end
  end
  return reply(parts)
end

if ARGV[1] == 'write' then return write(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]) end
return read(ARGV[2], ARGV[3])
