-- Weir: decides as one.lua does, for several callers, each by itself, in their order, at one reading of the clock.
--
-- KEYS[i]  as in one.lua
-- ARGV[1]  a byte for each: which of the following asks it is, from 2
-- ARGV[a]  as ARGV[1] in one.lua
-- reply    for each: its reply as there; or 1 B, a length I2, and what went wrong
{{hoist}}
local clock
{{template "failed" .}}
local virtual = true
{{template "ask" "ARGV[2]"}}
local asked, asks = 2, ARGV[1]
local decision = function($key, a)
  if a ~= asked then
    {{template "asked" "ARGV[a]"}}
    asked, virtual = a, true
  end
  {{locals 1}}
  {{template "clock" .}}
  {{template "decide" .}}
  return reply
end
local replies = {}
for i = 1, #KEYS do
  local done, reply = pcall(decision, KEYS[i], byte(asks, i))
  replies[i] = done and reply or failed(reply)
end
return table.concat(replies)
