-- count returns the units of the last microseconds (R11). It writes nothing.
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: instant I7 (above 2^53: the server's clock), span I6, window I6, cell I6 (as in one.lua);
--          of a Period its edges, as in kinds.lua.
-- reply    packed: units i8, at most 2^54 - 3; or 4 B, instant I7, as in kinds.lua.
-- Times are whole microseconds.
{{hoist}}
{{locals 1}}
local $key, virtual = KEYS[1], true
{{template "refills" .}}
local arg = ARGV[1]
local raw, span, $window, $cell, at = decode('>I7I6I6I6', arg)
{{template "further" .}}
{{template "clock" .}}
{{template "load" .}}
local now, corrected = raw, false
{{template "ahead" .}}
-- After a correction of the clock, entries of the future count as of now (R2). That changes the count only if they
-- merge with the oldest entry to more than 2^53 - 1 units.
local cut = now - span
{{template "window" .}}
if $debt then -- the units that are missing count as granted now (R12).
  $debt = $debt - math.max((corrected and $last or now) - $last, $since - $last)
  return encode('>i8', missing($debt, $frac, $wasunit, $waspart, $wasper))
end
if $ends then cut = $begin - 1 end
if $newest <= cut then return encode('>i8', 0) end
if $first > cut then
  local mark, units
  {{mark "mark" "now"}}
  if corrected and $newest > mark and $first >= mark then $extra = math.min($extra, 9007199254740991 - $total) end
  if $ends then $total, $extra = math.min($total + $extra, 9007199254740991), 0 end
  {{signed "units" "$total" "-$extra"}}
  return units
end
{{need}}
local _, _, _, _, _, gone = seek($key, $s, $p, $q, $from, $first, 0, $to, $z, $o, cut, 0)
return encode('>i8', $total - gone)
