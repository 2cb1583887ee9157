-- Returns histories and buckets as they are stored, for Go to decode. It writes nothing.
--
-- KEYS     histories.
-- reply    the server's clock I7; then for each key the number of its fields I4, and of each field
--          the name and the value, each behind its length I4. All numbers are big-endian.
local encode = struct.pack
local time = redis.call('TIME')
local reply = { encode('>I7', time[1] * 1000000 + time[2]) }
for i = 1, #KEYS do
  local fields = redis.call('HGETALL', KEYS[i])
  reply[#reply + 1] = encode('>I4', #fields / 2)
  for j = 1, #fields do
    reply[#reply + 1] = encode('>I4', #fields[j])
    reply[#reply + 1] = fields[j]
  end
end
return table.concat(reply)
