-- Weir: counts the units of the last while (R11).
--
-- KEYS[1]  the history
-- ARGV[1]  packed: instant I7 as in one.lua, last I6 (how long a while)
-- reply    packed: units i8
{{hoist}}
{{locals 1}}
local $key, virtual = KEYS[1], true
local raw, span = decode('>I7I6', ARGV[1])
{{template "clock" .}}
{{template "load" .}}
local now, corrected = raw, false
{{template "ahead" .}}
-- A corrected clock changes nothing here: what lies in the future would be re-dated to now, and counts.
local cut = now - span
if $newest <= cut then return encode('>i8', 0) end
if $first > cut then return encode('>i8', $total) end
{{need}}
local _, _, _, _, _, gone = seek($key, $s, $p, $q, $from, $first, 0, $to, $z, $o, cut, 0)
return encode('>i8', $total - gone)
