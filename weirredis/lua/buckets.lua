-- buckets decides several requests as bucket does, in their order, at one reading of the clock.
--
-- KEYS[i]  the history of request i.
-- ARGV[1]  one byte per request: the index of its argument, from 2.
-- ARGV[a]  a request, as ARGV[1] of bucket.lua.
-- reply    for each request: the first 22 bytes of a header of form 8, or 15 of form 9, as in bucket.lua; any other reply of bucket.lua; or an error:
--          1 B, length I2, text.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
{{short}}
{{template "failed" .}}
local replies, i, clock = {}, 1, nil
local keys, numbers, common = KEYS, ARGV[1], not ARGV[3] and 2
-- decisions decides from request i on. An error of one decision ends it.
local decisions = function()
  local current, virtual, kind, raw, take, part, spare, left, full, micros, rest, per, times
  while keys[i] do
    local key, a, reply = keys[i], common or byte(numbers, i), nil
    if a ~= current then
      local text = ARGV[a]
      {{template "plan" .}}
      current, virtual = a, true
    end
    {{template "clock" .}}
    {{template "flow" .}}
    replies[i] = reply
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
