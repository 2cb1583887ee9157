-- check returns the server's clock and its description, and calls each command of the other scripts
-- so that it has no effect.
--
-- KEYS   none, so any server of a Cluster answers.
-- ARGV   a key that is never written.
-- reply  text: the clock in microseconds; then the lines of INFO, and NAME:error of each command
--        that failed. HSET fails always, because a value is missing, but behind the check of the
--        user's rights.
local time, key = redis.call('TIME'), ARGV[1]
local lines = { string.format('%.0f', time[1] * 1000000 + time[2]) }
local commands = { { 'INFO' }, { 'GET', key }, { 'HDEL', key, 'h' }, { 'HGET', key, 'h' },
  { 'HGETALL', key }, { 'HLEN', key }, { 'HSCAN', key, '0' }, { 'HSET', key, 'h', '', 'odd' },
  { 'PEXPIRE', key, 1 }, { 'PTTL', key }, { 'SET', key, '', 'XX' }, { 'UNLINK', key } }
for _, command in ipairs(commands) do
  local reply = redis.pcall(unpack(command))
  if type(reply) ~= 'table' then lines[#lines + 1] = tostring(reply)
  elseif reply.err then lines[#lines + 1] = command[1] .. ':' .. reply.err
  end
end
return table.concat(lines, '\n')
