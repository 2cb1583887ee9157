{{- /*
The commonest decision: an attempt under one plain limit, on a history that is new,
or over, or whose oldest entry that counts is in the header. It is the path through
decide.lua without what is rarer. Wherever anything rarer is the case it leaves reply
nil, with nothing written, and decide.lua decides. TestQuick sees to it that both
answer alike and leave the same behind, byte for byte.
*/ -}}

{{define "quick"}}
  local reply
  local stored = call('HGET', $key, 'h')
  repeat
    if kind > 1 or n > $max or n > 65535 then break end
    local now, s, p, q, form = raw, stored, 1, 1, 5
    local last, first, lives, own, used = -9007199254740992, raw, 0, 0, 0
    local _, front, tail, late, from, chunks, moved, size
    if s then
      form, tail = byte(s), 0
      if form == 5 and #s >= 26 then
        _, last, first, lives, own, used, front, p = decode('>BI7I7I5I2I3B', s)
      elseif form == 6 and #s >= 40 then
        _, last, first, lives, own, used, front, tail, late, from, chunks, p = decode('>BI7I7I5I2I4BBI4I6I2', s)
      else
        break
      end
      q = p + front
      if #s ~= q + tail - 1 or last - raw >= 1000000 then break end
      if last > now then now = last end -- R2
      local cut = now - $window
      if last <= cut then -- R3: it is over
        if form == 6 then break end
        p, first, own, used = q, now, 0, 0
      else
        {{template "leaving" .}}
        if p >= q and form == 6 then
          -- The front is used up: the next chunk takes its place, unless even it has left.
          if chunks == 0 or (from + 1) % {{.Block}} == 0 then break end
          moved = encode('>I6', from)
          local text, behind, units = call('HGET', $key, moved), nil, nil
          if not text or #text < 10 then break end
          behind, size = decode('>I7B', text)
          if behind <= cut then break end
          s, p, behind = text, 9, sub(s, q)
          {{get "units" "s" "p"}}
          q = #s + 1
          if q ~= p + size then break end
          s, from, chunks = s .. behind, from + 1, chunks - 1
          {{template "leaving" .}}
        end
        if first <= cut or p >= q and form == 6 then break end
      end
    else
      s = ''
    end

    -- R5, R6: in full, or not at all.
    local room = $max - used
    local full = n <= room
    if full then
      used, room = used + n, room - n
    elseif kind == 1 and room > 0 then
      break
    end

    -- R8: the oldest entry that counts decides how long to wait. Where it has the units that are needed, as
    -- every entry has one, who reads the header knows.
    local wait, need = 0, n - room
    if need > 0 and not (full and n == 1) then
      local at = now
      if p < q then
        if need > 1 then
          local held, behind = 0, p
          do
            {{entry "s" "behind"}}
            held = n
          end
          if held < need then break end
        end
        at = first
      elseif not full or now > last and own >= need then
        at = last
      end
      wait = at - now + $window
    end
    if not full then
      reply = encode('>BBI7i8I7i8I7I7', 0, 1, 0, room, now, wait, last - now + $window, wait)
      break
    end

    -- R7: one more entry, or more units of the newest. One string is made of it all.
    local before, time, units, format = sub(s, p), 0, own, nil
    size = 0
    if now == last then
      own = own + n
      if own > 65535 then break end
    else
      if own > 0 then time = (now - last) * 2 end
      if late then late = late + own end
      own = n
    end
    {{lives "now" "lives"}}
    local name, chunk
    if form == 5 then
      {{sized ">BI7I7I5I2I3Bc0"}}
      front = q - p + size
      if front > {{.Run}} or used > 16777215 then break end
      s = encode(format, 5, now, first, lives, own, used, front, before, time, units)
    else
      {{sized ">BI7I7I5I2I4BBI4I6I2c0"}}
      tail = tail + size
      if used > 4294967295 or chunks == 0 and q - p + tail <= {{.Run}} then break end
      if tail < {{.Chunk}} then
        s = encode(format, 6, now, first, lives, own, used, q - p, tail, late, from, chunks, before, time, units)
      else
        local c, held = from + chunks, nil
        if chunks == 65534 or (c + 1) % {{.Block}} == 0 then break end
        s = encode(format, 6, now, first, lives, own, used, q - p, 0, 0, from, chunks + 1, before, time, units)
        {{put "late" "held"}}
        name, chunk = encode('>I6', c), encode('>I7B', now, tail) .. held .. sub(s, -tail)
        s = sub(s, 1, -tail - 1)
      end
    end
    if name then call('HSET', $key, 'h', s, name, chunk) else call('HSET', $key, 'h', s) end
    if moved then call('HDEL', $key, moved) end
    if renew then call('PEXPIRE', $key, string.format('%.0f', renew)) end
    if need > 0 and n > 1 then
      reply = encode('>BI7i8i8', 2, now, room, wait)
    else
      reply = {{if .Loop}}sub(s, 1, 26){{else}}s{{end}}
    end
  until true
{{end}}

{{define "leaving"}} {{- /* what no longer counts leaves the front (R3) */}}
        while first <= cut and p < q do
          {{entry "s" "p"}}
          first, used = first + delta, used - n
        end
{{end}}

{{define "sized"}} {{- /* format = HEAD, and behind it the entry of units before time, if any, as coded writes it */}}
      if time == 0 then format = '{{.E}}'
      elseif units == 1 then
        {{sizes .E "" 0}}
      else
        time = time + 1
        if units < 0x80 then
          {{sizes .E "B" 1}}
        elseif units < 0x4000 then
          units = units + 0x8000
          {{sizes .E "I2" 2}}
        else break end
      end
{{end}}

{{define "sizes" -}} {{- /* the same for a number of units written as FORMAT, in so many bytes */ -}}
if time < 0x80 then format, size = '{{.E}}B{{.V}}', 1 + {{.N}}
elseif time < 0x4000 then format, size, time = '{{.E}}I2{{.V}}', 2 + {{.N}}, time + 0x8000
elseif time < 0x200000 then format, size, time = '{{.E}}I3{{.V}}', 3 + {{.N}}, time + 0xC00000
elseif time < 0x10000000 then format, size, time = '{{.E}}I4{{.V}}', 4 + {{.N}}, time + 0xE0000000
elseif time < 0x800000000 then format, size, time = '{{.E}}I5{{.V}}', 5 + {{.N}}, time + 0xF000000000
elseif time < 0x40000000000 then format, size, time = '{{.E}}I6{{.V}}', 6 + {{.N}}, time + 0xF80000000000
else break end
{{- end}}
