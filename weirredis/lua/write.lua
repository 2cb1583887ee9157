{{define "write"}}
-- writes the history from its place on, then $push units of the entry at $edge, in one HSET.
do
  local e = ''
  if $push then {{coded "e" "$newest - $edge" "$push"}} end
  local from, front, tail, body, left, rest = $lc, $lq - $lp, #e, nil, nil, nil
  if from > $to then -- the place is in the tail, or no older entry is left.
    from, $late, body = $to, 0, string.sub($ls, $lp, $lq - 1)
  elseif $ls == $z and $lq == $o then
    tail, body = tail + #$z - $o + 1, string.sub($ls, $lp)
  else
    tail, body = tail + #$z - $o + 1, string.sub($ls, $lp, $lq - 1) .. string.sub($z, $o)
  end
  if $push then $late = $late + $push end
  if from == $to and front + tail <= {{.Run}} then
    front, tail, $late = front + tail, 0, 0
  elseif $lc > $from and $lc <= $to and front > 0 then -- the place is in a chunk.
    {{template "split" .}}
  end

  if from == $to and front + tail == 0 and $low < $top then -- only the newest entry is left of many.
    call('UNLINK', $key)
    $low, $top, $to, $lives, from = 0, 0, 0, 0, 0
  end

  local name, chunk, block
  if tail >= {{.Piece}} then
    body = body .. e
    {{template "piece" .}}
    body, e, tail, $late = string.sub(body, 1, front), '', 0, 0
  end

  local dead
  if $low + 1 == from and $top == $to and from % {{.Block}} ~= 0 then -- the most frequent case.
    dead, $low = encode('>I6', $low), from
  elseif $low < from or $top > $to then
    {{template "dead" .}}
  end

  {{lives (ends) "$window" "$lives"}}
  local head
  local narrow = $newest == $last and $own < 65536 and not ($wide and $lu < $newest)
  if $low == $top and tail == 0 then
    if narrow then -- some sixty entries of at most 65,535 units are less than 2^24.
      head = encode('>BI7I7I5I2I3B', 5, $last, $lu, $lives, $own, $used, front)
    else
      head = encode('>BI7I7I7I5I7I7B', 2, $last, $newest, $lu, $lives, $own, $used, front)
    end
  elseif narrow and $used < 4294967296 and $low == from and $top == $to and $to - from < 65536 then
    head = encode('>BI7I7I5I2I4BBI4I6I2', 6, $last, $lu, $lives, $own, $used, front, tail, $late, from, $to - from)
  else
    head = encode('>BI7I7I7I5I7I7I6I4I4I4I7BB', 4, $last, $newest, $lu, $lives, $own, $used,
      $low, from - $low, $to - $low, $top - $low, $late, front, tail)
  end
  head = head .. body .. e
  if not name and not rest then
    call('HSET', $key, 'h', head)
  else
    local fields = {}
    if rest then fields = {left, rest} end
    if name then fields[#fields + 1], fields[#fields + 2] = name, chunk end
    if block then fields[#fields + 1], fields[#fields + 2] = 'b' .. encode('>I6', $to / {{.Block}} - 1), block end
    call('HSET', $key, 'h', head, unpack(fields))
  end
  if dead then
    if type(dead) == 'table' then call('HDEL', $key, unpack(dead)) else call('HDEL', $key, dead) end
  end
  if renew then call('PEXPIRE', $key, string.format('%.0f', renew)) end
end
{{end}}

{{define "split"}}
    -- the front gets the rest of the piece with the place; the chunk keeps the others.
    local pieces, units = byte($ls, 9), nil
    local p, i = 10 + pieces, 0
    {{get "units" "$ls" "p"}}
    while i < pieces and p < $lp do p, i = p + byte($ls, 10 + i), i + 1 end
    if i == 0 then -- the chunk is still whole.
      from, front, body = $lc - 1, 0, string.sub($z, $o)
    elseif i < pieces then
      from, front, body = $lc - 1, p - $lp, string.sub($ls, $lp, p - 1) .. string.sub($z, $o)
      left, rest = encode('>I6', from), string.sub($ls, 1, 7) .. encode('BB', $lq - p, pieces - i) ..
        string.sub($ls, 10 + i, 9 + pieces) .. '\0' .. string.sub($ls, p)
    end
{{end}}

{{define "piece"}}
    -- the tail becomes a piece of the last chunk, or the first piece of a new one.
    local text, entries, pieces, start, held
    if from < $to and $to % {{.Block}} ~= 0 then
      name = encode('>I6', $to - 1)
      text = left == name and rest or call('HGET', $key, name)
    end
    {{template "grows" .}}
    if start then
      if left == name then left, rest = nil, nil end
      {{grown "chunk" "$newest" "$late"}}
      chunk = chunk .. string.sub(body, front + 1)
    else
      name = encode('>I6', $to)
      if from == $to and front > 0 and front + tail <= {{.Chunk}} then -- the first chunk takes the front, too.
        {{put "$used - $own" "held"}}
        chunk, front = encode('>I7BBBB', $newest, front + tail, 2, front, tail) .. held .. body, 0
      else
        {{put "$late" "held"}}
        chunk = encode('>I7BBB', $newest, tail, 1, tail) .. held .. string.sub(body, front + 1)
      end
      {{template "block" .}}
      $to = $to + 1
      if $top < $to then $top = $to end
    end
{{end}}

{{define "grows"}}
        -- start: where the entries of the chunk text begin, if tail more bytes fit into it.
        if text and #text >= 12 then
          local _
          _, entries, pieces = decode('>I7BB', text)
          if entries + tail <= {{.Chunk}} and #text - entries > 9 + pieces then start = #text - entries + 1 end
        end
{{end}}

{{define "grown"}} {{- /* E = the chunk text without its new piece, with N more units, before the entry with mark AT */}}
        local units, p = 0, 10 + pieces
        {{get "units" "text" "p"}}
        if units > 0 then units = units + {{.N}} end
        {{put "units" "held"}}
        {{.E}} = encode('>I7BB', {{.At}}, entries + tail, pieces + 1) .. sub(text, 10, 9 + pieces) ..
          encode('B', tail) .. held .. sub(text, start)
{{end}}

{{define "block"}}
    -- the chunk completes a block: its field holds the mark after it and its units, for skip.
    if ($to + 1) % {{.Block}} == 0 and $to + 1 - {{.Block}} >= from then
      local names, sum = {}, $late
      for i = 1, {{.Block}} - 1 do names[i] = encode('>I6', $to - {{.Block}} + i) end
      {{need}}
      for _, text in ipairs(call('HMGET', $key, unpack(names))) do
        local fine, _, n = pcall(parse, text) -- without the block, skip reads the chunks and reports the broken one.
        sum = fine and n > 0 and sum and sum + n -- the units of a chunk with 0 are not known.
      end
      if sum then block = encode('>I7I7', $newest, sum) end
    end
{{end}}

{{define "dead"}}
    -- names up to 16 chunks that no longer count, so that no script runs long (R13).
    dead = {}
    local forget = function(c)
      dead[#dead + 1] = encode('>I6', c)
      if (c + 1) % {{.Block}} == 0 then dead[#dead + 1] = 'b' .. encode('>I6', (c + 1) / {{.Block}} - 1) end
    end
    while $low < from and #dead < 16 do
      forget($low)
      $low = $low + 1
    end
    while $top > $to and #dead < 16 do
      $top = $top - 1
      forget($top)
    end
{{end}}

{{define "lives"}} {{- /* renew = the new time to live of the key, in ms, or nil; ENDS = when it is not needed any more, E = $lives */}}
  -- a key lives until its newest entry no longer counts; the expiry is renewed once a quarter of {{.Span}} (R13).
  local renew
  local ends = {{.Ends}}
  -- If instants are the caller's, real time may pass more slowly: the key lives hours longer, renewed once a {{.Span}}.
  local spare, virtually = {{.Span}} / 4, 0
  if virtual then spare, virtually = {{.Span}}, 549755813888 end
  local promised = ({{.E}} - virtually) * 1000000 -- far out of range if the other clock set it.
  if promised < ends or promised > ends + spare + 1000000 then
    ends = ends + spare
    {{.E}} = math.ceil(ends / 1000000) + virtually
    {{if kinds}}
    if ends < raw then ends = raw end -- a refund may leave nothing that counts.
    {{end}}
    renew = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0)
  end
{{end}}
