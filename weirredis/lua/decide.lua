{{- /*
One decision under one or several limits: the rules of docs/semantics.md,
in the order of internal/spec.
*/ -}}

{{define "decide"}}
  local now, corrected = raw, false
  {{each}}
    {{template "load" .}}
    {{template "ahead" .}}
  {{done}}
  {{each}}
    {{template "view" .}}
    $room = $max - $used -- R5
    $closed = now - $last < $gap
  {{done}}
  {{if .Single}}
  local room, open, fits = $room, not $closed, {{units}} <= $room
  {{else}}
  local room, open, fits = 9007199254740991, true, true
  {{each}}
    if $room < room then room = $room end
    if {{units}} > $room then fits = false end
    if $closed then open = false end
  {{done}}
  {{end}}

  -- granted: units of the decision. add: units to record, in every limit or in none (R6, R7, R10).
  local mode, granted, add, full = kind % 3, 0, 0, open and fits
  if kind >= 6 then
    {{each}}
      local units = {{units}}
      {{if .Kinds}}
      local most = $debt and $most or {{maxUnits}}
      if mode == 2 and units > $max and not $debt then units = $max end
      if $used + units > most then
      {{else}}
      if mode == 2 and units > $max then units = $max end
      if $used + units > {{maxUnits}} then
      {{end}}
        error('weir:overflow ' .. {{index}} .. ' ' .. string.format('%.0f', $used), 0)
      end
    {{done}}
    granted, add, full = n, n, true
  else
    if full then
      granted = n
      {{template "times" .}}
    elseif mode == 1 and open and room > 0 then
      granted = room
    end
    if kind < 3 then add = granted end
    if kind == 2 then add = n end
  end

  -- The state after the decision, and the waits (R8). Every call that can fail runs before the first write.
  {{if .Single}}
  local validFor = 0
  {{else}}
  local wait, reset, remaining, bound, longest, validFor = 0, 0, 9007199254740991, 0, 0, 9007199254740991
  {{end}}
  {{each}}
    if add > 0{{if .Costs}} and $n > 0{{end}} then
      {{if .Kinds}}
      if $debt then
        {{template "take" .}}
      else
      {{end}}
      {{template "record" .}}
      {{if .Kinds}}
      end
      {{end}}
    end
    {{template "waits" .}}
    {{if .Single}}
    if not full then
      validFor = $next > 0 and $next or 9007199254740991
      if $gapwait > 0 and $gapwait < validFor then validFor = $gapwait end
    end
    {{else}}
    if wait >= 0 and $wait > wait or $wait < 0 then wait = $wait end
    if $reset > reset then reset = $reset end
    if $max - $used < remaining then remaining = $max - $used end
    if not full then
      if $next > 0 and $next < validFor then validFor = $next end
      if $gapwait > 0 and $gapwait < validFor then validFor = $gapwait end
      {{template "bound" .}}
    end
    {{end}}
  {{done}}
  {{if .Single}}
  local wait, reset, remaining, bound = $wait, $reset, $max - $used, full and 0 or 1
  {{end}}

  {{each}}
    {{template "keep" .}}
  {{done}}

  local reply
  {{if .Kinds}}
  {{template "long" "full and 0 or validFor"}}
  {{else}}
  if full and granted == n and add == n and reset == {{if .Single}}$window{{else}}widest{{end}} then
    reply = encode('>BI7i8i8', 2, now, remaining, wait)
  else
    {{template "long" "full and 0 or validFor"}}
  end
  {{end}}
{{end}}

{{define "long"}}
    -- the long reply, with the time for which a denial stays the same.
    reply = encode('>BBI7i8I7i8I7I7', 0, bound, granted, remaining, now, wait, reset, {{.}})
{{end}}

{{define "states"}}
    -- behind the reply, the state of every limit.
    {{each}}
      reply = reply .. encode('>i8i8i8i8i8', $max - $used, $wait, $next, $gapwait, $reset)
    {{done}}
{{end}}

{{define "times"}}
      -- merged callers are decided at one instant, one after the other, until one is denied.
      if times > 1 then
        local fit = math.min(times, math.floor(room / n))
        {{each}} if $gap > 0 then fit = 1 end {{done}}
        granted, full = fit * n, fit == times
      end
{{end}}

{{define "record"}}
      -- in memory: the new units replace the entries that no longer count (R4).
      {{if .Costs}}local add = $cost > 0 and $cost or add{{end}}
      local units = add
      {{template "add" "units"}}
      if mode == 2 and $max == 0 then -- a limit of 0 keeps no entry (R6).
        $newest, $edge, $push = 0, 0, false
        {{template "none" .}}
      end
{{end}}

{{define "waits"}}
    -- $wait: until n more units fit. $reset: until no unit counts. $next: until the oldest entry leaves (R8).
    $gapwait = now - $last < $gap and $gap - (now - $last) or 0
    $wait = $gapwait
    {{if .Kinds}}
    if $debt then
      {{template "inflow" .}}
    else
    {{end}}
    local need, at = $used - $max + {{units}}, nil
    if {{units}} > $max then
      $wait = -1
    elseif need > 0 then
      {{leave "at" "need"}}
      if {{left "at"}} > $wait then $wait = {{left "at"}} end
    end
    $reset, $next = 0, 0
    if $used > 0 then
      $reset = {{left "$newest"}}
      if {{if .Single}}not full{{else}}states or not full{{end}} then
        if need ~= 1 or {{units}} > $max then
          {{leave "at" "1"}}
        end
        $next = {{left "at"}}
      end
    end
    {{if .Kinds}}
    end
    {{end}}
{{end}}

{{define "bound"}}
      -- bound: the limit because of which the attempt was not granted in full (R8).
      if times > 1 then $room, $closed = $max - $used, $gapwait > 0 end -- for the first denied caller.
      if granted > 0 and times == 1 then
        if bound == 0 or $room < longest then bound, longest = {{index}}, $room end
      elseif $closed or (mode == 1 and $room <= 0) or (mode ~= 1 and $room < {{units}}) then
        if bound == 0 or longest >= 0 and ($wait > longest or $wait < 0) then bound, longest = {{index}}, $wait end
      end
{{end}}

{{define "keep"}}
    {{if .Kinds}}
    if $debt then
      if add > 0 and $n > 0 or $redated and kind < 3 then
        {{template "freeze" .}}
      end
    else
    {{end}}
    if add > 0{{if .Costs}} and $n > 0{{end}} then
      {{template "write" .}}
    elseif $redated and kind < 3 then -- a denied attempt stores the correction and drops no entry (R2, R4).
      local used = $used
      $ls, $lp, $lq, $lc, $lu, $own, $used = $s, $p, $q, $from, $first, $units, $total
      {{template "write" .}}
      $used = used
    end
    {{if .Kinds}}
    end
    {{end}}
{{end}}
