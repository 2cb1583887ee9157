-- throttle decides one attempt by the generic cell rate algorithm. It writes last.
--
-- KEYS[1]  the key: digits of an instant in nanoseconds since 1970, from which
--          evenly spaced units would be on time; missing if the burst is available.
-- ARGV     the time by which the attempt moves that instant; the most that it may be
--          ahead of now. Each is whole seconds and the nanoseconds beyond them.
-- reply    "now arrival": both instants in nanoseconds, before the attempt.
--
-- An instant in nanoseconds needs 61 bits; a Lua number has 53. So an instant is two
-- numbers, seconds and nanoseconds.
local time = redis.call('TIME')
local now, nowns = tonumber(time[1]), time[2] * 1000
local at, atns = now, nowns
local stored = redis.call('GET', KEYS[1])
if stored then
  local s, ns = string.match(stored, '^(%d+)(%d%d%d%d%d%d%d%d%d)$')
  s, ns = tonumber(s), tonumber(ns)
  if not s or s > 5000000000 then
    return redis.error_reply('ERR the key holds something that is not an instant of CL.THROTTLE; delete it to begin anew')
  end
  if s > now or s == now and ns > nowns then at, atns = s, ns end
end
local reply = string.format('%.0f%09.0f %.0f%09.0f', now, nowns, at, atns)

local by, byns = tonumber(ARGV[1]), tonumber(ARGV[2])
local next, nextns = at + by, atns + byns
if nextns > 999999999 then next, nextns = next + 1, nextns - 1000000000 end
local most, mostns = now + ARGV[3], nowns + ARGV[4]
if mostns > 999999999 then most, mostns = most + 1, mostns - 1000000000 end

local fits = next < most or next == most and nextns <= mostns
if fits and (by > 0 or byns > 0) then
  local ttl = (next - now) * 1000 + math.ceil((nextns - nowns) / 1000000)
  redis.call('SET', KEYS[1], string.format('%.0f%09.0f', next, nextns), 'PX', string.format('%.0f', math.max(ttl, 1)))
end
return reply
