-- Sends the key of a request to a gate of weir, and stores the answer in variables of
-- the transaction:
--
--   txn.weir_status    the status; HAProxy's own 503 or 504 if weir did not answer
--   txn.weir_asked     set if the attempt reached the listener
--   txn.weir_answered  set if weir itself answered
--   txn.weir_limit, txn.weir_policy, txn.weir_retry, txn.weir_body
--                      RateLimit, RateLimit-Policy, Retry-After and the body
--
-- Arguments: the abstract socket of the listener that leads to weir, and the path of
-- the gate. The action sends txn.weir_key as Weir-Key, txn.weir_plan as
-- Weir-Plan, txn.weir_secret as Weir-Gate-Secret and txn.weir_forwarded as
-- X-Forwarded-For, from which weir sees that it counts a proxy. It sends nothing else.
core.register_action("weir", { "http-req" }, function(txn, socket, path)
  local headers = {}
  local function send(field, variable)
    local value = txn:get_var(variable)
    if value then headers[field] = { tostring(value) } end
  end
  send("weir-key", "txn.weir_key")
  send("weir-plan", "txn.weir_plan")
  send("weir-gate-secret", "txn.weir_secret")
  send("x-forwarded-for", "txn.weir_forwarded")

  local answer = core.httpclient():get{
    url = "http://weir" .. path,
    headers = headers,
    dst = "abns@" .. socket,
    timeout = 10000, -- the listener's own timeouts are shorter
  }
  if not answer then return end

  txn:set_var("txn.weir_status", answer.status)
  local function keep(field, variable)
    local values = answer.headers and answer.headers[field]
    if values then txn:set_var(variable, values[0]) end
  end
  keep("weir-asked", "txn.weir_asked")
  keep("weir-answered", "txn.weir_answered")
  keep("ratelimit", "txn.weir_limit")
  keep("ratelimit-policy", "txn.weir_policy")
  keep("retry-after", "txn.weir_retry")
  if answer.body then
    txn:set_var("txn.weir_body", (answer.body:gsub("%c", ""))) -- lf-string would print a line feed as %0A
  end
end, 2)
