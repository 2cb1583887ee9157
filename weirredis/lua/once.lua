-- once decides an attempt or a record with an idempotency key, or returns its stored answer (R15).
--
-- KEYS     the histories, then the operation.
-- ARGV[1]  a request, as in kinds.lua.
-- ARGV[2]  packed: lifetime of the operation I7.
-- reply    as in kinds.lua; or 3 B, then the stored answer: a long reply of one.lua and the name of the limit that bound.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
--
-- An operation is stored as version B (1), kind B (0 attempt, 6 record, 9 refund), n I7 units; until I7 (the instant
-- at which it expires), then its answer. In the answer of a refund, the instant is that of the entry, granted is the
-- number of units that were taken, and the time of the reset is the instant of the decision.
{{hoist}}
{{template "refills" .}}
local virtual, widest, keys, arg = true, 0, 0, ARGV[1]
local kind, times, n, raw, count, states, at = decode('>BBI7I7BB', arg)
states = states == 1
{{template "clock" .}}
local op, operation = kind >= 6 and 6 or 0, KEYS[count + 1]
{{template "known" .}}
if known then
  if was ~= op or units ~= n then error('weir:id ' .. string.format('%.0f %.0f', was, units), 0) end
  return encode('>B', 3) .. string.sub(known, 17)
end
{{template "limits" .}}
{{template "decide" .}}
if states then
  {{template "states" .}}
end
if add > 0 then -- the answer is stored with the histories, or not at all.
  local ends = now + decode('>I7', ARGV[2])
  local name = bound > 0 and string.match(KEYS[bound], '}([^:/]+)') or ''
  local lives = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0) -- R13
  local answer = reply
  {{template "long" "0"}}
  call('SET', operation, encode('>BBI7I7', 1, op, n, ends) .. reply .. name, 'PX', string.format('%.0f', lives))
  return answer
end
return reply
