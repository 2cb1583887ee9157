-- batch decides several requests under one limit each, in their order, at one reading of the clock.
--
-- KEYS[i]  the history of request i.
-- ARGV[1]  one byte per request: the index of its argument, from 2.
-- ARGV[a]  a request, as ARGV[1] of one.lua.
-- reply    for each request: the first 26 bytes of a reply of one.lua that begins with 5 or 6; any other reply of
--          one.lua; or an error: 1 B, length I2, text.
-- Units are whole numbers up to 2^53 - 1; times are whole microseconds.
{{hoist}}
{{template "failed" .}}
local decided = function($key, virtual, stored, kind, n, raw, $max, $window, $gap, $cell, times)
  {{locals 1}}
  {{template "plain" .}}
  {{template "decide" .}}
  return reply
end
local replies, i, clock = {}, 1, nil
local keys, numbers, common = KEYS, ARGV[1], not ARGV[3] and 2
-- decisions decides from request i on. An error of one decision ends it.
local decisions = function()
  local current, virtual, kind, n, raw, $max, $window, $gap, $cell, times
  while keys[i] do
    local $key, a = keys[i], common or byte(numbers, i)
    if a ~= current then
      local text = ARGV[a]
      {{template "request" .}}
      current, virtual = a, true
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
