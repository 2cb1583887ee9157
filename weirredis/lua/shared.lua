-- Shared by the files that follow in a joined script: functions of the server, and the request that
-- is being decided.
--
-- Units are whole numbers up to 2^51 - 1; instants and spans are whole microseconds up to
-- 2^53 - 1. In packed texts all numbers are big-endian: B is one byte, I7 seven bytes, i8 eight
-- bytes with a sign. Rules such as R7 are those of docs/semantics.md.
local call, encode, decode = redis.call, struct.pack, struct.unpack
local byte, sub = string.byte, string.sub
local raw, given -- the instant of the request, and whether the caller gave it (else: TIME)
local current    -- index in KEYS of the key that is read, for errors; -1 after the first write
