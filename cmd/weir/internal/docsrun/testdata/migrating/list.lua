-- list. KEYS: list; ARGV: limit, milliseconds, now in milliseconds
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[1]) then
  if ARGV[3] - redis.call('LINDEX', KEYS[1], -1) <= tonumber(ARGV[2]) then return 0 end
  redis.call('RPOP', KEYS[1])
end
redis.call('LPUSH', KEYS[1], ARGV[3])
return 1
