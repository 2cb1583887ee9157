-- Weir: decides as one.lua does, for several callers, each by itself, in their order, at one reading of the clock.
--
-- KEYS[i]  as in one.lua
-- ARGV[1]  a byte for each: which of the following asks it is, from 2
-- ARGV[a]  as ARGV[1] in one.lua
-- reply    for each: its reply as there; or 1 B, a length I2, and what went wrong
{{hoist}}
{{template "failed" .}}
local decided = function($key, virtual, stored, kind, n, raw, $max, $window, $gap, $cell, times)
  {{locals 1}}
  {{template "decide" .}}
  return reply
end
local replies, i, clock = {}, 1, nil
local keys, asks, alike = KEYS, ARGV[1], not ARGV[3] and 2
-- decisions goes on from i. A decision that cannot be made ends it.
local decisions = function()
  local asked, virtual, kind, n, raw, $max, $window, $gap, $cell, times
  while keys[i] do
    local $key, a = keys[i], alike or byte(asks, i)
    if a ~= asked then
      local text = ARGV[a]
      {{template "request" .}}
      asked, virtual = a, true
    end
    {{template "clock" .}}
    {{if .Quick}}
    {{template "quick" .}}
    {{else}}
    local reply, stored
    {{end}}
    replies[i] = reply or decided($key, virtual, stored, kind, n, raw, $max, $window, $gap, $cell, times)
    i = i + 1
  end
end
repeat
  local done, problem = pcall(decisions)
  if not done then
    replies[i] = failed(problem)
    i = i + 1
  end
until done
return table.concat(replies)
