{{- /*
One history, from its key and back. There is a variable $name for each limit of the
decision: a local variable h1_name, or the field H.name of a table.

	$key, $max, $window, $gap, $cell   the limit, as in engine.Limit ($gap is MinInterval). Instead of a width, $cell
	                                   can be a marker above every width, calendarCell … bucketCell of pack.go

	as stored
	$last      exact instant of the newest recorded attempt
	$newest    mark of the newest entry: its instant, or the end of its cell (R9); 0 if there is no entry
	$units     units of the newest entry, above 0; an older entry whose units were all refunded may remain
	$first     mark of the oldest entry; the newest may be the only one
	$total     units of all entries, below 2^52 (R6)
	$lives     second until which the key lives at least (R13); plus 2^39 if instants are the caller's
	$s,$p,$q   the front: entries from $s[$p] to before $s[$q]
	$z,$o      the tail: entries from $z[$o] on;  $late: their units
	$from,$to  the chunks between them, numbered $from … $to - 1
	$wide      an older entry may have no units after a refund
	$low,$top  fields of dead chunks may remain from $low to before $from, and from $to to before $top

	as seen by the decision
	$cut       entries count if their mark is above it: now - window (R3)
	$used      units that count
	$ls,$lp,$lq,$lc,$lu   the place of the oldest entry that counts and is not the newest
	$own       units of the newest entry that count
	$push      units of the former newest entry, which becomes an older one; false if there is none
	$edge      mark of the entry after the older ones
	$closed    the minimum interval has not passed (R5)

	in scripts for all kinds
	$debt,$frac            time until a bucket is full: microseconds, and a numerator over the $per of its rate (R16).
	                       From $last on as stored, from now on as seen; $debt is false if the limit is no Bucket
	$since                 when the bucket was last full or changed its rate. Grants from before have flowed in again, and
	                       at an earlier instant as much is missing as then;  $ahead: the time from now until then
	$unit,$part,$per,$most of a Bucket, as in engine.Refill; $max is its Burst
	$wasunit,$waspart,$wasper   the rate under which the bucket was stored
	$edge1 … $edge4        edges of three windows of a Period; $begin,$ends: the window of now (R3), else $ends is false

Field h of the hash is the header. It begins with its form; the order and width of its
numbers stand in "load":

	2  a short run of entries
	4  front, chunks and tail
	5  as 2; the newest entry was recorded at $last, and every entry has units, at most 65,535
	6  as 4; the same, and no chunks are dead
	8  of a Bucket, and of no other limit
	9  as 8, with no fractions of a microsecond: $per is 1
*/ -}}

{{define "load"}}
  $s = {{if quick}}stored{{else}}call('HGET', $key, 'h'){{end}}
  $low, $top, $from, $to, $late, $wide = 0, 0, 0, 0, 0, false
  {{if .Kinds}}
  $debt = false
  {{end}}
  if not $s then
    $s, $p, $q, $o = '', 1, 1, 1
    $last, $newest, $first, $units, $total, $lives = -9007199254740992, 0, 0, 0, 0, 0
    {{if .Kinds}}
    if $cell == {{bucket}} then $debt, $frac, $since, $wasunit, $waspart, $wasper = 0, 0, 0, $unit, $part, $per end
    {{end}}
  {{if .Kinds}}
  elseif $cell == {{bucket}} then
    local form, _ = byte($s), nil
    if form == 8 and #$s == 54 then
      _, $last, $debt, $frac, $since, $lives, $wasunit, $waspart, $wasper = decode('>BI7I7I7I7I5I6I7I7', $s)
    elseif form == 9 and #$s == 33 then
      _, $last, $debt, $since, $lives, $wasunit = decode('>BI7I7I7I5I6', $s)
      $frac, $waspart, $wasper = 0, 0, 1
    elseif form and form ~= 8 and form ~= 9 then
      error('weir:state version ' .. string.format('%.0f', form), 0)
    else
      error('weir:state the header is cut off', 0)
    end
  {{end}}
  else
    local form, size, behind, _ = byte($s), #$s, 0
    $wide = form == 2 or form == 4
    if form == 5 and size >= 26 then
      _, $last, $first, $lives, $units, $total, $q, $p = decode('>BI7I7I5I2I3B', $s)
      $newest = $last
    elseif form == 2 and size >= 42 then
      _, $last, $newest, $first, $lives, $units, $total, $q, $p = decode('>BI7I7I7I5I7I7B', $s)
    elseif form == 6 and size >= 40 then
      _, $last, $first, $lives, $units, $total, $q, behind, $late, $from, $to, $p = decode('>BI7I7I5I2I4BBI4I6I2', $s)
      $newest, $to, $low = $last, $from + $to, $from
      $top = $to
    elseif form == 4 and size >= 68 then
      _, $last, $newest, $first, $lives, $units, $total, $low, $from, $to, $top, $late, $q, behind, $p =
        decode('>BI7I7I7I5I7I7I6I4I4I4I7BB', $s)
      $from, $to, $top = $low + $from, $low + $to, $low + $top
    elseif form and form ~= 2 and (form < 4 or form > 6) then
      error('weir:state version ' .. string.format('%.0f', form), 0)
    else
      error('weir:state the header is cut off', 0)
    end
    $q = $p + $q
    $o = $q
    if size ~= $o + behind - 1 then error('weir:state the header is cut off', 0) end
  end
  $z = $s
{{end}}

{{define "ahead"}}
  -- a clock less than a second behind the history moves forward to it (R2).
  if $last > raw then
    if $last - raw >= 1000000 then corrected = true
    elseif $last > now then now = $last end
  end
{{end}}

{{define "view"}}
  -- the history as seen by a decision at now.
  $cut, $push, $redated = now - $window, false, false
  {{if .Kinds}}
  {{template "window" .}}
  if $debt then
    {{template "refill" .}}
  else
  {{end}}
  if corrected and $last - raw >= 1000000 then
    {{template "redate" .}}
  end
  {{template "live" .}}
  {{if .Kinds}}
  end
  {{end}}
{{end}}

{{define "mark"}} {{- /* V = the mark of an entry of instant AT (R3, R9) */ -}}
  {{.V}} = {{.At}}
  if $cell > 0 and $cell < {{if kinds}}{{bucket}}{{else}}{{firstHit}}{{end}} then
    {{.V}} = {{.At}} - {{.At}} % $cell + $cell
    if {{.V}} > 9007199254740991 then {{.V}} = 9007199254740991 end -- no instant is later.
  elseif $cell == {{calendar}} then {{.V}} = {{.At}} - {{.At}} % $window
  {{if kinds}}
  elseif $ends then {{.V}} = $begin -- AT is now.
  {{end}}
  end
{{end}}

{{define "redate"}}
  -- the clock was corrected: entries of the future merge into one entry of now, of at most 2^51 - 1 units (R2).
  $last, $redated = now, true
  local mark
  {{mark "mark" "now"}}
  if $newest > mark then
    {{need}}
    local all, kept = $total
    $s, $p, $q, $first, $to, $z, $o, $late, $newest, $units, kept =
      retreat($key, $s, $p, $q, $from, $first, $to, $z, $o, mark - 1)
    if $newest < 0 then
      $first = mark
    else
      local e
      {{coded "e" "mark - $newest" "$units"}}
      $z, $o, $late = string.sub($z, $o) .. e, 1, $late + $units
    end
    $newest, $units = mark, math.min(all - kept, {{maxUnits}})
    $total = kept + $units
  end
{{end}}

{{define "live"}}
  -- the entries that count at now (R3).
  $edge, $own = $newest, $units
  $ls, $lp, $lq, $lc, $lu = $s, $p, $q, $from, $first
  if $newest <= $cut then
    $used, $own = 0, 0
    {{template "none" .}}
  elseif $lu > $cut then
    $used = $total
  else
    local gone = 0
    repeat
      if $lp < $lq then
        {{entry "$ls" "$lp"}}
        gone, $lu = gone + n, $lu + delta
      elseif $lc < $to then
        {{template "next" .}}
      elseif $lc == $to then
        $ls, $lp, $lq, $lc = $z, $o, #$z + 1, $to + 1
      else
        error('weir:state an entry is missing', 0)
      end
    until $lu > $cut
    $used = $total - gone
  end
{{end}}

{{define "next"}}
        -- the next chunk; if none of its entries counts, seek skips chunks and blocks.
        local text = call('HGET', $key, encode('>I6', $lc))
        {{head "text"}}
        if behind > $cut then
          $ls, $lp, $lq, $lc = text, p, #text + 1, $lc + 1
        else
          {{need}}
          $ls, $lp, $lq, $lc, $lu, gone = seek($key, $ls, $lp, $lq, $lc, $lu, gone, $to, $z, $o, $cut, 0)
        end
{{end}}

{{define "none"}}
    -- no older entry counts.
    $ls, $lp, $lq, $lc, $lu = '', 1, 1, $to + 1, $edge
{{end}}

{{define "add"}} {{- /* its argument: the variable with the units */}}
  -- adds units at now (R4, R7).
  local mark
  {{mark "mark" "now"}}
  local merges = mark <= $newest -- a mark never runs back (R9).
  merges = merges or $cell == {{firstHit}} and $own > 0 -- an open window takes all units (R3).
  if mode == 2 then
    {{template "cap" .}}
  end
  if merges then
    $own = $own + {{.}}
  else
    if $own > 0 or $lu < $edge then $push = $own else $lu, $edge = mark, mark end
    $newest, $own = mark, {{.}}
  end
  $used, $last = $used + {{.}}, now
{{end}}

{{define "cap"}}
    -- CountDenied: keeps the newest entries that reach Max, and the oldest of them whole (R6). An entry counts at most
    -- Max.
    local most = merges and $max - $own or $max
    if {{.}} > most then {{.}} = most end
    local spare, gone = $used - $max + {{.}}, 0
    if spare >= 0 and $lu < $edge then
      {{need}}
      $ls, $lp, $lq, $lc, $lu, gone = seek($key, $ls, $lp, $lq, $lc, $lu, 0, $to, $z, $o, -1, spare + 1)
    end
    if not merges and $lu == $edge and gone + $own <= spare then gone, $own = gone + $own, 0 end
    $used = $used - gone
{{end}}

{{define "leave"}} {{- /* AT = mark of the entry with which NEED units leave, 0 < NEED <= $used (R8) */}}
  {{.At}} = nil
  local gone = 0
  if $lu < $edge then
    if $lp < $lq then -- mostly the oldest entry is enough.
      local behind = $lp
      {{entry "$ls" "behind"}}
      if n >= {{.Need}} then {{.At}} = $lu end
    end
    if not {{.At}} then
      {{need}}
      local _, u
      _, _, _, _, u, gone = seek($key, $ls, $lp, $lq, $lc, $lu, 0, $to, $z, $o, -1, {{.Need}})
      if u < $edge then {{.At}} = u end
    end
  end
  if not {{.At}} then
    if $push and gone + $push >= {{.Need}} then {{.At}} = $edge else {{.At}} = $newest end
  end
{{end}}
