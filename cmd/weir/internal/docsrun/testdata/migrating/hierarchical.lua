-- KEYS: set of all, set of the category; ARGV: limit of all, limit of a category, seconds
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now - ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, now)
redis.call('ZADD', KEYS[2], now, now)
return 1
