-- A counter that expires one window after its first hit. Twice the limit passes around
-- its edge.
--
-- KEYS[1]  the counter
-- ARGV     window ms, limit
-- reply    1 granted, 0 denied
local key = KEYS[1]
if redis.call('EXISTS', key) == 0 then redis.call('PSETEX', key, ARGV[1], 0) end
redis.call('INCR', key)
if tonumber(redis.call('GET', key)) <= tonumber(ARGV[2]) then return 1 end
return 0
