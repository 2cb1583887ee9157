-- A log on a grid in a sorted set with members "instant units". An event less than a cell
-- after the newest is added to it. Every decision reads the whole set, sums the units, and
-- returns the remaining units and the wait.
--
-- KEYS[1]  the set
-- ARGV     instant us, window us, limit, cell us
-- reply    granted 1 or 0, remaining units, wait us
local key, now = KEYS[1], tonumber(ARGV[1])
local window, limit, cell = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', key, 0, now - window - math.floor(cell / 2))
local set = redis.call('ZRANGE', key, 0, -1)
local sum, oldest, last, units = 0, nil, nil, 0
for _, member in ipairs(set) do
  local at, n = string.match(member, '^(%d+) (%d+)$')
  last, units = tonumber(at), tonumber(n)
  oldest = oldest or last
  sum = sum + units
end
local granted = sum < limit
if granted then
  sum = sum + 1
  if last and last + cell >= now then
    redis.call('ZREM', key, set[#set])
    units = units + 1
  else
    last = last and last + math.floor((now - last) / cell) * cell or now
    units = 1
  end
  local at = string.format('%.0f', last)
  redis.call('ZADD', key, at, at .. ' ' .. units)
end
return { granted and 1 or 0, limit - sum, sum >= limit and oldest and oldest + window - now or 0 }
