-- Decides each request by the function of its operation. The script operations has only decide and
-- decide_once.

local function decide_other(plan, k, op, n, number, flags)
  if op == 6 then return settle(plan, k, n) end
  if op == 7 then return extend(plan, k, n, number) end
  if flags % 4 > 1 then return decide_once(plan, k, op, n, number, flags) end
  if op == 3 then return refund(plan, k, n, number) end
  if op == 4 then return count(plan, k, number) end
  if op == 8 then return block(plan, k, number) end
  return decide(plan, k, op, n, number, flags)
end

answer(decide_other)
return table.concat(replies)
