-- Two sorted sets, one for all callers and one for the category, decided together at
-- the server's clock. Member and score are the instant. The keys never expire.
--
-- KEYS   the set of all, the set of the category
-- ARGV   window us, limit of all, limit of the category
-- reply  1 granted, 0 denied
local all, category = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = now - tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', all, 0, old)
redis.call('ZREMRANGEBYSCORE', category, 0, old)
if redis.call('ZCARD', all) >= tonumber(ARGV[2]) then return 0 end
if redis.call('ZCARD', category) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', all, now, now)
redis.call('ZADD', category, now, now)
return 1
