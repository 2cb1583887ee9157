{{- /*
One attempt or peek under one bucket, in the virtual scheduling form of GCRA: it fits if at
most the time in spare is missing, and adds the time in take. The reply has the time until
the bucket is full, from which Go derives room and waits. It is the path through decide.lua
without rare cases. TestBucketPathEqualsKinds compares both: replies and stored bytes are
the same.
*/ -}}

{{define "plan"}}
-- the request in text; without fractions of a microsecond it has 36 bytes.
if #text == 36 then
  kind, raw, take, spare, full, micros, times = decode('>BI7I7I7I7I6B', text)
  part, left, rest, per = 0, 0, 0, 1
else
  kind, raw, take, part, spare, left, full, micros, rest, per, times = decode('>BI7I7I7I7I7I7I6I7I7B', text)
end
{{end}}

{{define "flow"}}
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
      {{lives "now + full + 1" "(full + 1)" "lives"}}
      if per == 1 then
        stored = encode('>BI7I7I7I5I6', 9, now, debt, since, lives, micros)
      else
        stored = encode('>BI7I7I7I7I5I6I7I7', 8, now, debt, frac, since, lives, micros, rest, per)
      end
      call('HSET', key, 'h', stored)
      if renew then call('PEXPIRE', key, string.format('%.0f', renew)) end
      if times == 1 then
        reply = {{if .Loop}}sub(stored, 1, per == 1 and 15 or 22){{else}}stored{{end}}
        break
      end
    end
  end
  reply = encode('>BI7I7I7B', 10, now, debt, frac, fits)
until true
{{end}}
