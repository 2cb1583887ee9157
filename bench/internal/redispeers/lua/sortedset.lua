-- A log in a sorted set, as in tutorials: member and score are the instant, so two grants
-- of one instant are one member. The key never expires.
--
-- KEYS[1]  the set
-- ARGV     instant us, window us, limit
-- reply    1 granted, 0 denied
local key, now = KEYS[1], tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', key, 0, now - tonumber(ARGV[2]))
if redis.call('ZCARD', key) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', key, ARGV[1], ARGV[1])
return 1
