-- count returns the units of the last microseconds (R11). It writes nothing.
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: instant I7 (above 2^53: the server's clock), span I6, window I6, cell I6 (as in one.lua);
--          of a Period its edges, as in kinds.lua.
-- reply    packed: units i8; or 4 B, instant I7, as in kinds.lua.
-- Times are whole microseconds.
{{hoist}}
{{locals 1}}
local $key, virtual = KEYS[1], true
local arg = ARGV[1]
local raw, span, $window, $cell, at = decode('>I7I6I6I6', arg)
{{template "further" .}}
{{template "clock" .}}
{{template "load" .}}
local now, corrected = raw, false
{{template "ahead" .}}
local cut = now - span
{{template "window" .}}
if corrected then
  {{template "redate" .}}
end
if $ends then cut = $begin - 1 end
if $newest <= cut then return encode('>i8', 0) end
if $first > cut then return encode('>i8', $total) end
{{need}}
local _, _, _, _, _, gone = seek($key, $s, $p, $q, $from, $first, 0, $to, $z, $o, cut, 0)
return encode('>i8', $total - gone)
