-- Calls the script of Envoy's snippet with the fields of a request, through the functions that
-- Envoy provides.
local function status(lines)
  local answered
  local headers = {}
  function headers:get(name) -- several lines are joined by commas
    return #lines > 0 and table.concat(lines, ",") or nil
  end
  function headers:getNumValues(name) return #lines end
  envoy_on_request({
    headers = function() return headers end,
    respond = function(self, fields, body) answered = fields[":status"] end,
  })
  return answered
end
local function want(got, status, case)
  assert(got == status, case .. ": " .. tostring(got))
end
want(status{"ann"}, nil, "one line")
want(status{"ann, bob"}, nil, "a list in one line")
want(status{("x"):rep(1024)}, nil, "1024 bytes")
want(status{}, "400", "no line")
want(status{""}, "400", "an empty line")
want(status{"ann", "bob"}, "400", "two lines")
want(status{"ann", ""}, "400", "an empty second line")
want(status{("x"):rep(1025)}, "400", "1025 bytes")
want(status{"a\xffb"}, "400", "no UTF-8")
want(status{"a\1b"}, "400", "a control character")
