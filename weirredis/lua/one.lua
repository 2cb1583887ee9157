-- one decides one attempt, peek or record under one limit. Rules: docs/semantics.md.
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: kind B (0 attempt, 3 peek, 6 record; plus 0 all or nothing, 1 partial, 2 count denied);
--          n I7 units, instant I7 (above 2^53: the server's clock); max I7 units, window I6; then, unless they are
--          0, 0 and 1: gap I6, cell I6 (or a marker of fixed windows, lua/history.lua), times B (merged callers).
-- reply    packed, one of:
--          short:  2 B, instant I7, remaining i8 units, wait i8 (-1 = never); granted in full, and all units leave
--                  within one window.
--          long:   0 B, bound B (the limit that bound, from 1; 0 = granted in full), granted I7 units;
--                  remaining i8 units; instant I7, wait i8, reset I7, validFor I7 (a denial stays the same so long).
--          header: the header that was written, which begins with 5 or 6, or its first 26 bytes; granted in full, n is
--                  1 or remaining is at least n; max - used remains, and the oldest entry determines the wait.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
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
{{template "plain" .}}
{{template "decide" .}}
return reply
