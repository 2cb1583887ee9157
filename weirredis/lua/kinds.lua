{{- /*
Limits of kind Bucket, and calendar windows with a Period (R3, R12, R16). Only the scripts
for all kinds contain them. The names are in lua/history.lua.

Every product is below 2^53: a Bucket has at most as many units as have an exact time
(engine.Refill.MaxExact).
*/ -}}

{{define "refills"}}
-- cost returns the time in which n units flow in: microseconds, and a numerator over per.
local cost = function(n, unit, part, per)
  local rest = n * part
  local left = rest % per
  return n * unit + (rest - left) / per, left
end
-- after returns the time by which debt + frac/per exceeds time + rest/per, rounded up; below 1 if it does not.
local after = function(debt, frac, time, rest)
  return debt - time + (frac > rest and 1 or 0)
end
-- missing returns the units of the time debt + frac/per, rounded up.
local missing = function(debt, frac, unit, part, per)
  if debt < 0 or debt == 0 and frac == 0 then return 0 end
  local most = math.floor({{maxUnits}} / math.max(part, unit + 1))
  local n = math.min(math.ceil((debt + frac / per) / (unit + part / per)), most) -- the estimate is a few units off.
  while n > 0 and after(debt, frac, cost(n - 1, unit, part, per)) < 1 do n = n - 1 end
  while n < most and after(debt, frac, cost(n, unit, part, per)) > 0 do n = n + 1 end
  return n
end
{{end}}

{{define "further"}}
    -- the further numbers of a Bucket or a Period.
    if $cell == {{bucket}} then $unit, $part, $per, $most, at = decode('>I6I7I7I7', arg, at)
    elseif $cell == {{period}} then $edge1, $edge2, $edge3, $edge4, at = decode('>I7I7I7I7', arg, at) end
{{end}}

{{define "window"}}
  -- the window of now; the script never decides outside of the windows around the caller's time (R3).
  $ends = false
  if $cell == {{period}} then
    if now < $edge1 or now >= $edge4 then return encode('>BI7', 4, now) end
    $begin, $ends = $edge2, $edge3
    if now < $edge2 then $begin, $ends = $edge1, $edge2 elseif now >= $edge3 then $begin, $ends = $edge3, $edge4 end
    $cut = $begin - 1
  end
{{end}}

{{define "refill"}}
    -- the bucket at now. After a correction of the clock as much is missing as at the newest attempt (R2).
    if corrected and $last - raw >= 1000000 then
      $debt = $debt - math.max($since - $last, 0)
      if $debt < 0 then $debt, $frac = 0, 0 end
      $last, $since, $redated = now, math.min($since, now), true
    else
      $debt = $debt - (now - $last)
    end
    $ahead = math.max($since - now, 0)
    if $debt < $ahead or $debt == $ahead and $frac == 0 then $debt, $frac, $since = $ahead, 0, now + $ahead end
    if $wasunit ~= $unit or $waspart ~= $part or $wasper ~= $per then
      {{template "pace" .}}
    end
    $used = missing($debt - $ahead, $frac, $unit, $part, $per)
{{end}}

{{define "pace"}}
      -- the whole units that are missing stay, and so does the time that the next one has waited, rounded up, but at
      -- most a whole unit (R12).
      $debt = $debt - $ahead
      local units = missing($debt, $frac, $wasunit, $waspart, $wasper)
      local time, rest = cost(units, $wasunit, $waspart, $wasper)
      local waited = after(time, rest, $debt, $frac)
      units, $redated = math.min(units, $most), true
      if units > 0 and after($unit, $part, waited, 0) < 1 then units, waited = units - 1, 0 end
      $debt, $frac = cost(units, $unit, $part, $per)
      $debt, $since, $ahead = $debt - waited, now, 0
{{end}}

{{define "take"}}
        -- R16: a denied attempt in CountDenied takes at most until the bucket is empty.
        local units, time, rest = $cost > 0 and $cost or add, nil, nil
        if kind < 6 and granted == 0 and units > $max - $used then
          time, rest = cost($max, $unit, $part, $per)
          time = time + $ahead
          if after(time, rest, $debt, $frac) > 0 then $debt, $frac = time, rest end
        else
          time, rest = cost(units, $unit, $part, $per)
          $debt, $frac = $debt + time, $frac - ($per - rest)
          if $frac < 0 then $frac = $frac + $per else $debt = $debt + 1 end
        end
        $last, $used = now, missing($debt - $ahead, $frac, $unit, $part, $per)
{{end}}

{{define "inflow"}}
      -- until n more units are there, the next one, and all of them.
      $next, $reset = 0, $used > 0 and after($debt, $frac, 0, 0) or 0
      if {{units}} > $max then
        $wait = -1
      elseif {{units}} > $max - $used then
        $wait = math.max($wait, after($debt, $frac, cost($max - {{units}}, $unit, $part, $per)))
      end
      if $used > 0 then $next = after($debt, $frac, cost($used - 1, $unit, $part, $per)) end
{{end}}

{{define "freeze"}}
        -- stores the bucket.
        local full = cost($max, $unit, $part, $per) + 1
        {{lives "math.max(now + full, now + 1 + $debt, $last + $gap)" "full" "$lives"}}
        local debt, head = $debt + (now - $last), nil
        if $per == 1 then
          head = encode('>BI7I7I7I5I6', 9, $last, debt, $since, $lives, $unit)
        else
          head = encode('>BI7I7I7I7I5I6I7I7', 8, $last, debt, $frac, $since, $lives, $unit, $part, $per)
        end
        call('HSET', $key, 'h', head)
        if renew then call('PEXPIRE', $key, string.format('%.0f', renew)) end
{{end}}
