-- The coding of the entries in a history.
--
-- An entry is the gap to the next entry, in microseconds between their marks, and its units. The
-- first bit of a gap is 1 if units follow; otherwise it is one unit. The next bits give the size:
-- 0 of 2 bytes, 10 of 3, 110 of 4, 1110 of 5, and 1111 of 8 bytes, whose last 7 are the number.
-- Units are coded as a gap without further units.

-- decode_number returns the number at text[i], whether its first bit is 1, and the place behind it.
local function decode_number(text, i)
  local first, second, third, fourth, fifth = byte(text, i, i + 4)
  local flagged = first >= 128
  if flagged then first = first - 128 end
  if first < 64 then return first * 2^8 + second, flagged, i + 2 end
  if first < 96 then return (first - 64) * 2^16 + second * 2^8 + third, flagged, i + 3 end
  if first < 112 then
    return (first - 96) * 2^24 + second * 2^16 + third * 2^8 + fourth, flagged, i + 4
  end
  if first < 120 then
    local high = (first - 112) * 2^32 + second * 2^24
    return high + third * 2^16 + fourth * 2^8 + fifth, flagged, i + 5
  end
  return decode('>I7', text, i + 1), flagged, i + 8
end

-- encode_entry returns the bytes of an entry.
local function encode_entry(gap, units)
  local text
  if gap < 2^14 then text = encode('>I2', gap)
  elseif gap < 2^21 then text = encode('>I3', gap + 2^22)
  elseif gap < 2^28 then text = encode('>I4', gap + 2^29 + 2^30)
  elseif gap < 2^35 then text = encode('>I5', gap + 2^36 + 2^37 + 2^38)
  else text = encode('>BI7', 120, gap)
  end
  if units == 1 then return text end
  return string.char(byte(text) + 128) .. sub(text, 2) .. encode_entry(units, 1)
end
