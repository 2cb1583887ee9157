-- The layout of a history: the entries of one limit for one key. It is a hash.
--
-- An entry is the units of one instant. Its mark is the instant that decides when they leave: that
-- of the grant itself, the end of its cell, or the begin of its window (R3, R9).
--
-- Field h is its header. bucket.lua has that of a bucket; other histories have one of two forms:
--   1 B, last I7, first I7, promised I6, own I2, units I4, tail: the newest entry is of the
--     instant last.
--   2 B, last I7, first I7, promised I6, own I7, units I7, newest I7, from I6, count I4, skip I2,
--     late I7, tail.
--     last      instant of the newest attempt (R2, R5)
--     first     mark of the oldest entry
--     promised  millisecond until which the key lives at least; 0 = not known (R13)
--     newest    mark of the newest entry; own: its units, above 0 if there is an entry
--     units     of all entries
--     tail      the older entries that are in no chunk: length B, entries; late: their units
--     from      number of the oldest chunk; its oldest entry begins at byte skip
--     count     number of chunks
-- A history with appointments (R18) has these before its header (appointments.lua): 5 B, and more.
-- One with a block (R20) has 4 B, begin I7, length I7 before all of this; the header may be missing
-- then. The key lives at least as long as the block, also beyond promised.
--
-- The other fields are chunks, by their numbers: mark I7 of the next newer entry, the units I7 of
-- the chunk, length B of its entries, its entries, oldest first. number.lua has their coding.
local SHORT, LONG = '>BI7I7I6I2I4Bc0', '>BI7I7I6I7I7I7I6I4I2I7Bc0' -- the two forms
local CHUNK = 96 -- bytes of entries in a chunk; a longer tail becomes one

-- renew returns the promised end of a key that is needed until the instant ends, and a new time to
-- live in milliseconds, or nil if the present one is long enough (R13). A promise exceeds the need
-- by a quarter of the span. So most recordings set no time to live. The key lives a second longer,
-- because the clock may step back (R2). Real time may pass more slowly than instants that callers
-- give. With these 2^44 is added to the promise, and the key lives a span and two hours longer.
local function renew(promised, ends, span)
  local spare, mark, longer = span / 4000, 0, 1000
  if given then spare, mark, longer = span / 1000, 2^44, 7200000 end
  local need = ends / 1000 + mark
  if promised >= need and promised <= need + spare + 1001 then return promised end
  promised = math.ceil(need + spare)
  return promised, promised - mark - math.floor(raw / 1000) + longer
end
