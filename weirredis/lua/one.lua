-- Weir: decides one attempt, peek or record under one limit. Rules: docs/semantics.md.
--
-- KEYS[1]  the history
-- ARGV[1]  packed: kind B (0 attempt, 3 peek, 6 record; plus 0 all or nothing, 1 partial, 2 count denied),
--          n I7 units, instant I7 (above 2^53: the server's clock), max I7 units, window I6, then unless the
--          script is plain gap I6, cell I6 (or the kind of window, lua/history.lua), times B (callers who ask the same at one instant)
-- reply    packed, either 2 B, instant I7, remaining i8 units, wait i8 (-1 = never): granted in full, and
--          all is reset a window later; or 0 B, bound B (0 = granted in full; else the limit that bound,
--          from 1), granted I7 units, remaining i8, instant I7, wait i8, reset I7, stays I7 (how long the
--          denial stays the same); or, as 2, the 26 bytes that the header now begins with, or more of it:
--          what is used up says what remains, and if less than n, as n is then 1, the oldest entry how long
--          to wait (lua/quick.lua)
-- All times are whole microseconds.
{{short}}
local $key, virtual, text = KEYS[1], true, ARGV[1]
local kind, n, raw, $max, $window, $gap, $cell, times
{{template "request" .}}
{{template "clock" .}}
{{if .Quick}}
{{template "quick" .}}
if reply then return reply end
{{end}}
{{lengthy}}
{{locals 1}}
{{template "decide" .}}
return reply
