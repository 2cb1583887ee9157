-- Weir: what a server says of itself.
--
-- reply  its clock in microseconds, and on the next lines what INFO says of the server and its memory
local time = redis.call('TIME')
local told = ''
for _, section in ipairs({'server', 'memory'}) do
  local done, info = pcall(redis.call, 'INFO', section)
  if done and type(info) == 'string' then told = told .. '\n' .. info end
end
return string.format('%.0f', time[1] * 1000000 + time[2]) .. told
