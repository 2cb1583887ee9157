-- check returns the server's clock and its description.
--
-- KEYS   none.
-- ARGV   none.
-- reply  text: the clock in microseconds; on the next lines INFO server, memory and replication.
local time = redis.call('TIME')
local function info(section)
  local done, text = pcall(redis.call, 'INFO', section)
  return done and '\n' .. text or ''
end
return string.format('%.0f', time[1] * 1000000 + time[2]) .. info('server') .. info('memory') .. info('replication')
