-- refund takes back units of the entry of one instant, in every limit (R10).
--
-- KEYS     the history of each limit, then the operation if there is an idempotency key (lua/once.lua).
-- ARGV[1]  packed: mode B, number of limits B, instant I7 (above 2^53: the server's clock); granted I7 (the instant of
--          the entry; above 2^53: the oldest entry that counts, of each limit its own); n I7 units;
--          then for each limit max I7, window I6, gap I6, cell I6, take I7 (the most units to take of it), and of a
--          Bucket and a Period as in kinds.lua.
-- ARGV[2]  with an operation, packed: its lifetime I7.
-- reply    packed: the most units taken in one limit i8; of a known operation, its stored answer; or 4 B, instant I7,
--          as in kinds.lua.
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
  local took, _, entry = decode('>I7i8I7', known, 19)
  if was ~= 9 or units ~= n or entry ~= granted then error('weir:id ' .. string.format('%.0f %.0f', was, units), 0) end
  return encode('>i8', took)
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
  else
  local mark
  if granted > 9007199254740991 then
    mark = 0
    if $used > 0 then
      {{leave "mark" "1"}}
    end
  elseif $cell == {{firstHit}} and $edge <= granted and granted - $edge < $window then
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
if most == 0 then return encode('>i8', 0) end

-- Every call that can fail runs before the first write. All entries but that of the instant stay, also those that
-- no longer count: a later decision may be at an earlier instant (R2, R10).
{{each}}
  if not $debt then
  $ls, $lp, $lq, $lc, $lu, $own, $used = $s, $p, $q, $from, $first, $units, $total - $took
  $wide = $wide or $took > 0 and $ep
  if $took == 0 then
    -- only the correction of the clock is stored (R2).
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
    {{template "write" .}}
  end
{{done}}
if operation then -- stored with the histories, or not at all.
  local ends = now + decode('>I7', ARGV[2])
  local lives = math.ceil((ends - raw) / 1000) + 1000 + (virtual and 7200000 or 0) -- R13
  call('SET', operation, encode('>BBI7I7', 1, 9, n, ends) .. encode('>BBI7i8I7i8I7I7', 0, 0, most, 0, granted, 0, 0, 0),
    'PX', string.format('%.0f', lives))
end
return encode('>i8', most)

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
