{{define "request"}}
-- the request in text, under one limit; without its last part it has 28 bytes, and times is nil.
if #text == 28 then
  kind, n, raw, $max, $window = decode('>BI7I7I7I6', text)
  times = nil
else
  kind, n, raw, $max, $window, $gap, $cell, times = decode('>BI7I7I7I6I6I6B', text)
end
{{end}}

{{define "plain"}}
  if not times then $gap, $cell, times = 0, 0, 1 end
{{end}}

{{define "clock"}}
  -- raw: one reading of the clock, the caller's or the server's (R1); virtual: it is the caller's.
  if raw > 9007199254740991 then
    virtual = false
    {{if .Loop}}
    if not clock then
      local time = call('TIME')
      clock = time[1] * 1000000 + time[2]
    end
    raw = clock
    {{else}}
    local time = call('TIME')
    raw = time[1] * 1000000 + time[2]
    {{end}}
  end
{{end}}

{{define "failed"}}
  -- failed returns the reply for an error of one decision, which wrote nothing.
  local failed = function(problem)
    if type(problem) == 'table' then problem = problem.err end
    problem = string.sub(tostring(problem), 1, 1000)
    return encode('>BI2', 1, #problem) .. problem
  end
{{end}}
