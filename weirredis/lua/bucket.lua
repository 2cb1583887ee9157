-- bucket decides one attempt or peek of all or nothing under one limit of kind Bucket without minimum interval (R16).
--
-- KEYS[1]  the history.
-- ARGV[1]  packed: kind B (0 attempt, 3 peek), instant I7 (above 2^53: the server's clock); take I7, part I7: the time in
--          which the units of the attempt flow in, microseconds and a numerator over per; spare I7, left I7: that of the
--          units that may be missing before it; full I7: that of the whole bucket, microseconds rounded down;
--          micros I6, rest I7, per I7 of engine.Refill; times B (merged callers). Without part, left, rest and per, if
--          per is 1.
-- reply    packed, one of:
--          header: 8 B, instant I7, then the time until the bucket is full: microseconds I7, numerator I7; or 9 B and
--                  the same without numerator; the other fields of the header that was written. Granted in full to a
--                  single caller.
--          state:  10 B, as 8, granted B: the number of granted callers.
--          none:   4 B, instant I7: nothing is decided, because the history is no bucket of that rate, or the clock was
--                  corrected; the script kinds decides.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
local call, encode, decode = redis.call, struct.pack, struct.unpack
local key, virtual, text = KEYS[1], true, ARGV[1]
local kind, raw, take, part, spare, left, full, micros, rest, per, times
{{template "plan" .}}
{{template "clock" .}}
local reply
{{template "flow" .}}
return reply
