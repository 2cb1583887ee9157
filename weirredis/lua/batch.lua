-- batch decides several requests under one limit each, in their order, at one reading of the clock.
--
-- KEYS[i]  the history of request i.
-- ARGV[1]  one byte per request: the index of its argument, from 2.
-- ARGV[a]  a request, as ARGV[1] of one.lua.
-- reply    for each request: a reply of one.lua, of which the first 26 bytes if it begins with 6; or
--          denied: 11 B, instant I7, then the header as it is stored, which begins with 5 and has max units; n is 1; or
--          an error: 1 B, length I2, text.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
{{hoist}}
{{template "failed" .}}
local decided = function($key, virtual, stored, kind, n, raw, $max, $window, $gap, $cell, times)
  {{locals 1}}
  {{template "plain" .}}
  {{template "decide" .}}
  return reply
end
local replies, i, k, clock = {}, 1, 1, nil
local keys, numbers, common = KEYS, ARGV[1], not ARGV[3] and 2
-- decisions decides from request i on. An error of one decision ends it.
local decisions = function()
  local current, virtual, kind, n, raw, $max, $window, $gap, $cell, times
  {{if .Quick}}
  -- for the template straight: whether the request can take it, the last mark that does not count, the bounds of the
  -- promised expiry as in the template lives, and the beginning of a denial.
  local straight, cut, ends, late, virtually, denied
  {{end}}
  while keys[i] do
    local $key, a = keys[i], common or byte(numbers, i)
    if a ~= current then
      local text = ARGV[a]
      {{template "request" .}}
      current, virtual = a, true
      {{template "clock" .}}
      {{if .Quick}}
      straight = n == 1 and kind < 2 and not times
      cut, ends, virtually = raw - $window, raw + $window, virtual and 549755813888 or 0
      late = ends + (virtual and $window or $window / 4) + 1000000
      denied = encode('>BI7', 11, raw)
      {{end}}
    end
    {{if .Quick}}
    {{template "quick" .}}
    {{else}}
    local reply, stored
    {{end}}
    replies[k] = reply or decided($key, virtual, stored, kind, n, raw, $max, $window, $gap, $cell, times)
    i, k = i + 1, k + 1
  end
end
repeat
  local done, problem = pcall(decisions)
  if not done then
    replies[k] = failed(problem)
    i, k = i + 1, k + 1
  end
until done
return table.concat(replies)
