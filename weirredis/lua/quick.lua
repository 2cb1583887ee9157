{{- /*
The most frequent decision: an attempt under one limit without minimum interval and
cells, on a history that is new, has expired, or has its oldest entry that counts in the
header. It is the path through decide.lua without rare cases. In a rare case reply stays
nil, nothing is written, and decide.lua decides. TestQuickPathEqualsLongPath compares both: replies and
stored bytes are the same.
*/ -}}

{{define "quick"}}
  local reply
  local stored = call('HGET', $key, 'h')
  {{if .Loop}}
  {{template "straight" .}}
  {{end}}
  repeat
    {{if .Loop}}
    -- merged callers with one unit each are decided here if all are granted, or all denied.
    if reply or times and (n > 1 or $gap > 0 or $cell > 0) then break end
    local count = times or n
    {{else}}
    local count = n
    if times then break end
    {{end}}
    if kind > 1 or n > $max or n > 65535 then break end
    local now, s, p, q, form = raw, stored, 1, 1, 5
    local last, first, lives, own, used = -9007199254740992, raw, 0, 0, 0
    local _, front, tail, late, from, chunks, size
    local left, rest, over = nil, nil, 0
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
      if last <= cut then -- R3: no entry counts.
        if form == 6 then break end
        p, first, own, used = q, now, 0, 0
      else
        {{template "leaving" .}}
        if first <= cut and form == 6 and chunks > 0 then
          -- The front is empty: the next piece becomes the front, unless it has expired, too.
          left = encode('>I6', from)
          local text, units = call('HGET', $key, left), nil
          if not text or #text < 12 then break end
          local behind, entries, pieces, piece = decode('>I7BBB', text)
          p = 10 + pieces
          if behind <= cut or #text <= p then break end
          {{get "units" "text" "p"}}
          if #text - p + 1 ~= entries then break end
          if pieces > 1 then
            over = entries - piece
            rest = sub(text, 1, 7) .. encode('BB', over, pieces - 1) .. sub(text, 11, 9 + pieces) .. '\0' .. sub(text, p + piece)
            s, p, q = sub(text, p, p + piece - 1) .. sub(s, q), 1, piece + 1
          else
            from, chunks = from + 1, chunks - 1
            if from % {{.Block}} == 0 then break end
            s, p, q = sub(text, p) .. sub(s, q), 1, entries + 1
          end
          {{template "leaving" .}}
        end
        if first <= cut then break end
      end
    else
      s = ''
    end

    -- R5, R6: granted in full, or denied.
    local room = $max - used
    local full = count <= room
    if full then
      used, room = used + count, room - count
    elseif room > 0 and (kind == 1 or count > n) then
      break
    end

    -- R8: the oldest entry that counts determines the wait, if it has the units that are needed. Every entry has
    -- one, so for one unit the header is enough.
    local wait, need = 0, n - room
    if need > 0 and not (full and n == 1) then
      local at = now
      if p < q or form == 6 then
        if need > 1 then
          local text, behind, held = s, p, 0
          if p >= q then -- the entry is not in the header.
            text = not rest and chunks > 0 and call('HGET', $key, encode('>I6', from))
            if not text or #text < 12 then break end
            _, behind = decode('>I7B', text)
            behind = #text - behind + 1
            if behind < 12 then break end
          end
          do
            {{entry "text" "behind"}}
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

    -- R7: one more entry, or more units of the newest. The header is made in one step.
    local before, time, units, format = sub(s, p), 0, own, nil
    size = 0
    if now == last then
      own = own + count
      if own > 65535 then break end
    else
      if own > 0 then time = (now - last) * 2 end
      if late then late = late + own end
      own = count
    end
    {{lives "$window + now" "$window" "lives"}}
    local name, chunk
    if form == 5 then
      {{sized ">BI7I7I5I2I3Bc0"}}
      front = q - p + size
      if front > {{.Run}} then break end
      s = encode(format, 5, now, first, lives, own, used, front, before, time, units)
    else
      {{sized ">BI7I7I5I2I4BBI4I6I2c0"}}
      tail = tail + size
      if used > 4294967295 or (chunks == 0 or chunks == 1 and rest) and q - p + tail + over <= {{.Run}} then break end
      if tail < {{.Piece}} then
        s = encode(format, 6, now, first, lives, own, used, q - p, tail, late, from, chunks, before, time, units)
      else
        -- The tail becomes a piece of the last chunk, or the first piece of a new one.
        local c, text, entries, pieces, start, held = from + chunks, nil, nil, nil, nil, nil
        if chunks == 0 or rest and chunks == 1 then break end
        if c % {{.Block}} ~= 0 then
          name = encode('>I6', c - 1)
          text = call('HGET', $key, name)
          {{template "grows" .}}
        end
        if not start then
          if chunks == 65534 or (c + 1) % {{.Block}} == 0 then break end
          chunks = chunks + 1
        end
        s = encode(format, 6, now, first, lives, own, used, q - p, 0, 0, from, chunks, before, time, units)
        if start then
          {{grown "chunk" "now" "late"}}
        else
          {{put "late" "held"}}
          name, chunk = encode('>I6', c), encode('>I7BBB', now, tail, 1, tail) .. held
        end
        chunk = chunk .. sub(s, -tail)
        s = sub(s, 1, -tail - 1)
      end
    end
    if rest then
      if name then call('HSET', $key, 'h', s, left, rest, name, chunk) else call('HSET', $key, 'h', s, left, rest) end
    else
      if name then call('HSET', $key, 'h', s, name, chunk) else call('HSET', $key, 'h', s) end
      if left then call('HDEL', $key, left) end
    end
    if renew then call('PEXPIRE', $key, string.format('%.0f', renew)) end
    if need > 0 and n > 1 then
      reply = encode('>BI7i8i8', 2, now, room, wait)
    else
      reply = {{if .Loop}}form == 5 and s or sub(s, 1, 26){{else}}s{{end}}
    end
  until true
{{end}}

{{define "straight"}}
  -- the commonest of these: one unit later than all others, on a history in the header from which nothing leaves.
  if straight and stored and #stored >= 26 then
    local form, last, first, lives, own, used, front, p = decode('>BI7I7I5I2I3B', stored)
    repeat
      if form ~= 5 or last >= raw or first <= cut or #stored ~= 26 + front then break end
      if used == $max then -- the caller derives the denial from the header.
        replies[k] = denied
        k, reply = k + 1, stored
      elseif used < $max and own == 1 then
        local promised = (lives - virtually) * 1000000
        if promised < ends or promised > late then break end
        local time, format, size = (raw - last) * 2, nil, nil
        {{sizes ">BI7I7I5I2I3Bc0" "" 0}}
        front = front + size
        if front > {{.Run}} then break end
        reply = encode(format, 5, raw, first, lives, 1, used + 1, front, sub(stored, p), time)
        call('HSET', $key, 'h', reply)
      end
    until true
  end
{{end}}

{{define "leaving"}}
        -- entries that no longer count leave the front (R3).
        while first <= cut and p < q do
          {{entry "s" "p"}}
          first, used = first + delta, used - n
        end
{{end}}

{{define "sized"}} {{- /* format = HEAD, then the entry of units and time, if any, as coded writes it */}}
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

{{define "sizes" -}} {{- /* the same with units in FORMAT, of so many bytes */ -}}
if time < 0x80 then format, size = '{{.E}}B{{.V}}', 1 + {{.N}}
elseif time < 0x4000 then format, size, time = '{{.E}}I2{{.V}}', 2 + {{.N}}, time + 0x8000
elseif time < 0x200000 then format, size, time = '{{.E}}I3{{.V}}', 3 + {{.N}}, time + 0xC00000
elseif time < 0x10000000 then format, size, time = '{{.E}}I4{{.V}}', 4 + {{.N}}, time + 0xE0000000
elseif time < 0x800000000 then format, size, time = '{{.E}}I5{{.V}}', 5 + {{.N}}, time + 0xF000000000
elseif time < 0x40000000000 then format, size, time = '{{.E}}I6{{.V}}', 6 + {{.N}}, time + 0xF80000000000
else break end
{{- end}}
