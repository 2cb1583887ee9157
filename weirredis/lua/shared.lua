-- Shared by the files behind it: functions of the server, and the request in work.
--
-- Units are whole numbers up to 2^51 - 1; instants and spans are whole microseconds up to
-- 2^53 - 1. In packed texts all numbers are big-endian: B is one byte, I7 seven bytes, i8 eight
-- bytes with a sign. Rules such as R7 are those of docs/semantics.md.
local call, encode, decode = redis.call, struct.pack, struct.unpack
local byte, sub = string.byte, string.sub
local raw, given -- the clock of the request in work, and whether it is an instant of the caller
local current    -- number of the key in work, which errors name; -1 after the first write
