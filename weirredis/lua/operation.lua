{{define "known"}}
-- known: the stored operation, or nil; was: its kind; units: its units (R15).
local known, was, units = operation and call('GET', operation), nil, nil
if known then
  if byte(known) ~= 1 then
    error('weir:state version ' .. string.format('%.0f', byte(known) or 0) .. ' of an operation', 0)
  elseif #known < 62 then
    error('weir:state the operation is cut off', 0)
  end
  local _, ends
  _, was, units, ends = decode('>BBI7I7', known)
  if raw >= ends then known = nil end
end
{{end}}
