-- check returns the server's clock and its description.
--
-- KEYS   none.
-- ARGV   none.
-- reply  text: the clock in microseconds; on the next lines INFO server and INFO memory.
local time = redis.call('TIME')
local infos = ''
for _, section in ipairs({'server', 'memory'}) do
  local done, info = pcall(redis.call, 'INFO', section)
  if done and type(info) == 'string' then infos = infos .. '\n' .. info end
end
return string.format('%.0f', time[1] * 1000000 + time[2]) .. infos
