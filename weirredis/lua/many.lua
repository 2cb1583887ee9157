-- many decides several requests under several limits each, in their order, at one reading of the clock. The scripts
-- two and three are the same for two and three limits, with the state of the histories in local variables. The script
-- kinds is the same for limits of all kinds.
--
-- KEYS     the histories, in the order of the requests and their limits.
-- ARGV[i]  packed: kind B, times B, n I7, instant I7 as in one.lua, number of limits B, states B (1 = return them);
--          then for each limit max I7, window I6, gap I6, cell I6, cost I7 (0 = n; above 2^53: none). In kinds
--          follow, if cell is the marker of a Bucket (max is its Burst): micros I6, rest I7, per I7, most I7
--          (engine.Refill); if it is the marker of a Period: the four edges I7 of three of its windows, that of the
--          caller's time in the middle.
-- reply    for each request: the short or long reply of one.lua, or an error: 1 B, length I2, text; or, in kinds, 4 B,
--          instant I7: nothing is decided, because no window contains the instant. States follow as:
--          remaining i8, wait i8, next i8 (until the oldest entry leaves), gap i8 (until it has passed), reset i8 of
--          each limit.
-- Units are whole numbers up to 2^51 - 1; times are whole microseconds.
{{hoist}}
local clock
{{if .Kinds}}
{{template "refills" .}}
{{end}}
{{template "failed" .}}
local decision = function(arg, keys)
  local virtual, widest = true, 0
  local kind, times, n, raw, count, states, at = decode('>BBI7I7BB', arg)
  states = states == 1
  {{template "limits" .}}
  {{template "clock" .}}
  {{template "decide" .}}
  if states then
    {{template "states" .}}
  end
  return reply
end
local replies, keys = {}, 0
for i = 1, #ARGV do
  local done, reply = pcall(decision, ARGV[i], keys)
  replies[i] = done and reply or failed(reply)
  keys = keys + byte(ARGV[i], 17)
end
return table.concat(replies)

{{define "limits"}}
  -- the limits of the request, and room for the state of their histories.
  {{if .Tables}}
  local limits = {}
  for i = 1, count do
    limits[i] = { key = false, max = 0, window = 0, gap = 0, cell = 0, cost = 0, n = 0, {{fields}} }
  end
  {{else}}
  {{range .Range}}
  local h{{.}}_key, h{{.}}_max, h{{.}}_window, h{{.}}_gap, h{{.}}_cell, h{{.}}_cost, h{{.}}_n
  {{locals .}}
  {{end}}
  {{end}}
  {{each}}
    $key = KEYS[keys + {{index}}]
    $max, $window, $gap, $cell, $cost, at = decode('>I7I6I6I6I7', arg, at)
    {{if .Kinds}}
    {{template "further" .}}
    {{end}}
    $n = $cost > 0 and n > 0 and $cost or n -- R7
    if $cost > 9007199254740991 then $n = 0 end
    if $window > widest then widest = $window end
  {{done}}
{{end}}
