-- refund takes back units of the entry of one instant, or of the oldest entries that count, in every limit (R10).
--
-- KEYS     the history of each limit, then the operation if there is an idempotency key (lua/once.lua).
-- ARGV[1]  packed: mode B, number of limits B, instant I7 (above 2^53: the server's clock); granted I7 (the instant of
--          the entry; above 2^53: the oldest entries that count, of each limit its own); n I7 units;
--          then for each limit max I7, window I6, gap I6, cell I6, take I7 (the most units to take of it), and of a
--          Bucket and a Period as in kinds.lua.
-- ARGV[2]  with an operation, packed: its lifetime I7.
-- reply    packed: the most units taken in one limit i8, the instant I7 of the decision, and 1 B if they are the answer
--          of a known operation; or 4 B, instant I7, as in kinds.lua.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
{{hoist}}

-- strike takes units off the entry at s[p], in a run that begins at s[b]. An entry without units is removed if an
-- entry before it in the run can take over its time.
local strike = function(s, b, p, units)
  local from, after, e = p, p, nil
  {{entry "s" "after"}}
  local gap, left = delta, n - units
  if left == 0 and p > b then
    local at = b
    while at < p do
      from = at
      {{entry "s" "at"}}
      left, gap = n, gap + (at == p and delta or 0)
    end
  end
  {{coded "e" "gap" "left"}}
  return string.sub(s, 1, from - 1) .. e .. string.sub(s, after)
end

-- thin takes up to want units off the entries from s[p] to before s[q], in a run that begins at s[start], oldest first. The
-- entry before them, or one without units, takes over the time of those that lose all. It returns the new text, the
-- units that it took and the time of those entries.
local thin = function(s, start, p, q, want)
  local from, at, took, time, e, rest = p, p, 0, 0, '', ''
  local before, held = 0, 0 -- the entry before them: its time and its units.
  while start < p do
    from = start
    {{entry "s" "start"}}
    before, held = delta, n
  end
  while at < q and took < want do
    {{entry "s" "at"}}
    if took + n > want then
      local left = took + n - want
      {{coded "rest" "delta" "left"}}
      took = want
    else
      took, time = took + n, time + delta
    end
  end
  if at > q then error('weir:state an entry is cut off', 0) end
  if from < p or time > 0 then {{coded "e" "before + time" "held"}} end
  return string.sub(s, 1, from - 1) .. e .. rest .. string.sub(s, at), took, time
end

{{template "refills" .}}
local virtual, limits = true, {}
local mode, count, raw, granted, n, pos = decode('>BBI7I7I7', ARGV[1])
for i = 1, count do
  local H = { key = KEYS[i], {{fields}} }
  H.max, H.window, H.gap, H.cell, H.n, pos = decode('>I7I6I6I6I7', ARGV[1], pos)
  local arg, at = ARGV[1], pos
  {{template "further" .}}
  limits[i], pos = H, at
end
{{template "clock" .}}
granted = math.min(granted, 9007199254740992) -- so that it is exact.
local operation = KEYS[count + 1]
{{template "known" .}}
if known then
  local took, _, entry, _, decided = decode('>I7i8I7i8I7', known, 19)
  if was ~= 9 or units ~= n or entry ~= granted then error('weir:id ' .. string.format('%.0f %.0f', was, units), 0) end
  return encode('>i8I7B', took, decided, 1)
end
local now, corrected = raw, false
{{each}}
  {{template "load" .}}
  {{template "ahead" .}}
{{done}}

local most = 0
{{each}}
  {{template "view" .}}
  if $debt then
    {{template "return" .}}
  elseif granted > 9007199254740991 then
    $took = math.min($n, $used)
    $all = $took == $used
    $es, $ep, $eq, $ec, $eu = $ls, $lp, $lq, $lc, $lu
  else
  local mark
  if $cell == {{firstHit}} and $edge <= granted and granted - $edge < $window then
    mark = $edge -- R3
  elseif $cell == {{period}} then
    mark = $begin <= granted and granted < $ends and $edge or -1
  else
    {{mark "mark" "granted"}}
  end
  $took = 0
  if mark == $edge then
    $took = math.min($n, $own)
  elseif mark > $cut and mark < $edge and $lu < $edge then
    {{need}}
    local u, held, _
    $es, $ep, _, $ec, u, _, held = seek($key, $ls, $lp, $lq, $lc, $lu, 0, $to, $z, $o, mark - 1, 0)
    if u == mark then $took = math.min($n, held) end
  end
  end
  if math.min($took, n) > most then most = math.min($took, n) end
{{done}}
if most == 0 then return encode('>i8I7', 0, now) end

-- Every call that can fail runs before the first write. All entries but that of the instant stay, also those that
-- no longer count: a later decision may be at an earlier instant (R2, R10).
{{each}}
  if not $debt then
  $ls, $lp, $lq, $lc, $lu, $own, $used = $s, $p, $q, $from, $first, $units, $total - $took
  $wide = $wide or $took > 0 and $ep
  if $took == 0 then
    -- only the correction of the clock is stored (R2).
  elseif $all then -- every entry that counts is removed.
    {{template "drop" .}}
  elseif $eu then
    {{template "thin" .}}
  elseif not $ep then
    $own = $own - $took
    if $own == 0 then
      {{template "drop" .}}
    end
  elseif $ec == $from then
    $ls = strike($s, $p, $ep, $took)
    $lq = $q + #$ls - #$s
  elseif $ec == $to + 1 then
    $z, $late = strike($z, $o, $ep, $took), $late - $took
  else
    {{template "chunk" .}}
  end
  end
{{done}}
{{each}}
  if $debt then
    if $took > 0 or $redated then
      {{template "freeze" .}}
    end
  elseif $took > 0 or $redated then
    if $chunk then call('HSET', $key, $name, $chunk) end
    if $block then call('HSET', $key, $bname, $block) end
    for name, text in pairs($fields or {}) do call('HSET', $key, name, text) end
    {{template "write" .}}
  end
{{done}}
if operation then -- stored with the histories, or not at all.
  local ends = now + decode('>I7', ARGV[2])
  local lives = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0) -- R13
  call('SET', operation, encode('>BBI7I7', 1, 9, n, ends) .. encode('>BBI7i8I7i8I7I7', 0, 0, most, 0, granted, 0, now, 0),
    'PX', string.format('%.0f', lives))
end
return encode('>i8I7', most, now)

{{define "return"}}
    -- gives back to the bucket, unless the grant has flowed in again (R16).
    $took = 0
    local counts = granted > 9007199254740991 or $since <= granted and granted <= $last
    if counts then $took = math.min($n, $used) end
    if $took > 0 and $took == $used then
      $debt, $frac, $since = $ahead, 0, now + $ahead
    elseif $took > 0 then
      local back, part = cost($took, $unit, $part, $per)
      $debt, $frac = $debt - back, $frac - part
      if $frac < 0 then $debt, $frac = $debt - 1, $frac + $per end
    end
{{end}}

{{define "thin"}}
    -- the older entries, run after run: the rest comes from the newest.
    local s, p, q, c, u, left, blocks = $es, $ep, $eq, $ec, $eu, $took, {}
    $fields = {}
    {{need}}
    while left > 0 and c <= $to + 1 do
      local text, took, time = s, 0, 0
      if p >= q then
        -- nothing of this run counts.
      elseif c == $from then
        text, took, time = thin(s, $p, p, q, left)
        $ls, $lq = text, $q + #text - #s
      elseif c == $to + 1 then
        text, took = thin(s, $o, p, q, left)
        $z, $late = text, $late - took
      else
        local behind, units, start = parse(s)
        if p == start and units > 0 and units <= left then -- without a look at its entries.
          local e
          {{coded "e" "behind - u" "0"}}
          text, took, time = e, units, behind - u
        else
          text, took, time = thin(s, start, p, q, left)
          text = sub(text, start)
        end
        if units > 0 then units = units - took end
        local size
        {{put "units" "size"}}
        $fields[encode('>I6', c - 1)] = encode('>I7BBB', behind, #text, 1, #text) .. size .. text
        local name = 'b' .. encode('>I6', math.floor((c - 1) / {{.Block}}))
        blocks[name] = (blocks[name] or 0) + took
      end
      left, u = left - took, u + time
      if c < $to then
        s, c = call('HGET', $key, encode('>I6', c)), c + 1
        local _
        _, _, p = parse(s)
        q = #s + 1
      else
        s, p, q, c = $z, $o, #$z + 1, c + 1
      end
    end
    $own = $own - left
    for name, took in pairs(blocks) do
      local block = call('HGET', $key, name)
      if block then
        local after, all = decode('>I7I7', block)
        $fields[name] = encode('>I7I7', after, all - took)
      end
    end
{{end}}

{{define "drop"}}
        -- the newest entry is removed: the last one with units becomes the newest.
        if $used == 0 then
          $newest, $edge = 0, 0
          {{template "none" .}}
        else
          {{need}}
          local last, late
          {{leave "last" "$used"}}
          $ls, $lp, $lq, $lu, $to, $z, $o, late, $newest, $own =
            retreat($key, $ls, $lp, $lq, $lc, $lu, $to, $z, $o, last)
          $late, $edge = late, $newest
        end
{{end}}

{{define "chunk"}}
      -- the entry is in a chunk; the head of the chunk and its block contain its units, too.
      local behind, units, start = parse($es)
      local text, size = strike($es, start, $ep, $took), ''
      if units > 0 then units = units - $took end
      {{put "units" "size"}}
      text = string.sub(text, start)
      $name, $chunk = encode('>I6', $ec - 1), encode('>I7BBB', behind, #text, 1, #text) .. size .. text
      $bname = 'b' .. encode('>I6', math.floor(($ec - 1) / {{.Block}}))
      $block = call('HGET', $key, $bname)
      if $block then
        local after, all = decode('>I7I7', $block)
        $block = encode('>I7I7', after, all - $took)
      end
{{end}}
