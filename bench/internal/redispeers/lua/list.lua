-- A log in a list, as in tutorials: as long as the limit, oldest last. It requires that
-- the callers' clocks agree. A lowered limit does not shorten an existing list, and the key
-- never expires.
--
-- KEYS[1]  the list
-- ARGV     instant us, window us, limit
-- reply    1 granted, 0 denied
local key, now = KEYS[1], ARGV[1]
if redis.call('LLEN', key) < tonumber(ARGV[3]) then
  redis.call('LPUSH', key, now)
  return 1
end
if now - redis.call('LINDEX', key, -1) <= tonumber(ARGV[2]) then return 0 end
redis.call('LPUSH', key, now)
redis.call('RPOP', key)
return 1
