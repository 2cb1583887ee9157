-- fixed window. KEYS: counter; ARGV: limit, milliseconds
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('PSETEX', KEYS[1], ARGV[2], 0) end
if redis.call('INCR', KEYS[1]) <= tonumber(ARGV[1]) then return 1 end
return 0
