-- bucket decides one attempt or peek of all or nothing under one limit of kind Bucket without minimum interval (R16).
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: kind B (0 attempt, 3 peek), instant I7 (above 2^53: the server's clock); take I7, part I7: the time in
--          which the units of the attempt flow in, microseconds and a numerator over per; spare I7, left I7: that of the
--          units that may be missing before it; full I7: that of the whole bucket, microseconds rounded down;
--          micros I6, rest I7, per I7 of engine.Refill; times B (merged callers). Without part, left, rest and per, if
--          per is 1.
-- reply    packed, one of:
--          header: 8 B, instant I7, then the time until the bucket is full: microseconds I7, numerator I7; or 9 B and
--                  the same without numerator; the other fields of the header that was written. Granted in full to a
--                  single caller.
--          state:  10 B, as 8, granted B: the number of granted callers.
--          none:   4 B, instant I7: nothing is decided, because the history is no bucket of that rate, or the clock was
--                  corrected; the script kinds decides.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
local call, encode, decode = redis.call, struct.pack, struct.unpack
local key, virtual, text = KEYS[1], true, ARGV[1]
local kind, raw, take, part, spare, left, full, micros, rest, per, times
-- the request in text; without fractions of a microsecond it has 36 bytes.
if #text == 36 then
  kind, raw, take, spare, full, micros, times = decode('>BI7I7I7I7I6B', text)
  part, left, rest, per = 0, 0, 0, 1
else
  kind, raw, take, part, spare, left, full, micros, rest, per, times = decode('>BI7I7I7I7I7I7I6I7I7B', text)
end
-- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
if raw > 9007199254740991 then
  virtual = false
  local time = call('TIME')
  raw = time[1] * 1000000 + time[2]
end
local reply
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
        reply = stored
        break
      end
    end
  end
  reply = encode('>BI7I7I7B', 10, now, debt, frac, fits)
until true
return reply
