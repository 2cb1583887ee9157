-- buckets decides several requests as bucket does, in their order, at one reading of the clock.
--
-- KEYS[i]  the history of request i.
-- ARGV[1]  one byte per request: the index of its argument, from 2.
-- ARGV[a]  a request, as ARGV[1] of bucket.lua.
-- reply    for each request: the first 22 bytes of a header of form 8, or 15 of form 9, as in bucket.lua; any other reply of bucket.lua; or an error:
--          1 B, length I2, text.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
local call, byte, sub, encode, decode = redis.call, string.byte, string.sub, struct.pack, struct.unpack
-- failed returns the reply for an error of one decision, which wrote nothing.
local failed = function(problem)
  if type(problem) == 'table' then problem = problem.err end
  problem = string.sub(tostring(problem), 1, 1000)
  return encode('>BI2', 1, #problem) .. problem
end
local replies, i, clock = {}, 1, nil
local keys, numbers, common = KEYS, ARGV[1], not ARGV[3] and 2
-- decisions decides from request i on. An error of one decision ends it.
local decisions = function()
  local current, virtual, kind, raw, take, part, spare, left, full, micros, rest, per, times
  while keys[i] do
    local key, a, reply = keys[i], common or byte(numbers, i), nil
    if a ~= current then
      local text = ARGV[a]
      -- the request in text; without fractions of a microsecond it has 36 bytes.
      if #text == 36 then
        kind, raw, take, spare, full, micros, times = decode('>BI7I7I7I7I6B', text)
        part, left, rest, per = 0, 0, 0, 1
      else
        kind, raw, take, part, spare, left, full, micros, rest, per, times = decode('>BI7I7I7I7I7I7I6I7I7B', text)
      end
      current, virtual = a, true
    end
    -- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
    if raw > 9007199254740991 then
      virtual = false
      if not clock then
        local time = call('TIME')
        clock = time[1] * 1000000 + time[2]
      end
      raw = clock
    end
    repeat
      local stored = call('HGET', key, 'h')
      local now, debt, frac, since, lives = raw, 0, 0, raw, 0
      if stored then
        local form, last, wasunit, waspart, wasper = nil, nil, nil, 0, 1
        if #stored == 33 then
          form, last, debt, since, lives, wasunit = decode('>BI7I7I7I5I6', stored)
        elseif #stored == 54 then
          form, last, debt, frac, since, lives, wasunit, waspart, wasper = decode('>BI7I7I7I7I5I6I7I7', stored)
          form = form + 1
        end
        if form ~= 9 or wasper ~= per or wasunit ~= micros or waspart ~= rest or last - raw >= 1000000 or since > raw and since > last
        then
          reply = encode('>BI7', 4, now)
          break
        end
        if last > now then now = last end -- R2
        debt = debt - (now - last)
        if debt < 0 or debt == 0 and frac == 0 then debt, frac, since = 0, 0, now end
      end
      local fits = 0
      if debt < spare or debt == spare and frac <= left then
        fits = 1
        if kind == 0 then
          -- merged callers are decided one after the other, until one is denied.
          debt, frac = debt + take, frac - (per - part)
          if frac < 0 then frac = frac + per else debt = debt + 1 end
          while fits < times and (debt < spare or debt == spare and frac <= left) do
            fits, debt, frac = fits + 1, debt + take, frac - (per - part)
            if frac < 0 then frac = frac + per else debt = debt + 1 end
          end
          -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of (full + 1) (R13).
          local renew
          local ends = now + full + 1
          -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a (full + 1).
          local spare, virtually = (full + 1) / 4, 0
          if virtual then spare, virtually = (full + 1), 549755813888 end
          local promised = (lives - virtually) * 1000000 -- far out of range if the other clock set it.
          if promised < ends or promised > ends + spare + 1000000 then
            ends = ends + spare
            lives = math.ceil(ends / 1000000) + virtually
            renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
          end
          if per == 1 then
            stored = encode('>BI7I7I7I5I6', 9, now, debt, since, lives, micros)
          else
            stored = encode('>BI7I7I7I7I5I6I7I7', 8, now, debt, frac, since, lives, micros, rest, per)
          end
          call('HSET', key, 'h', stored)
          if renew then call('PEXPIRE', key, string.format('%.0f', renew)) end
          if times == 1 then
            reply = sub(stored, 1, per == 1 and 15 or 22)
            break
          end
        end
      end
      reply = encode('>BI7I7I7B', 10, now, debt, frac, fits)
    until true
    replies[i] = reply
    i = i + 1
  end
end
repeat
  local done, problem = pcall(decisions)
  if not done then
    replies[i] = failed(problem)
    i = i + 1
  end
until done
return table.concat(replies)
