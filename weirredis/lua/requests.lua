-- The requests of a call are decided in their order at one reading of the clock (R1). An error of
-- one stops no other.
--
-- KEYS     for each request the history of each of its limits, then the key of its operation if it
--          has an id.
-- ARGV[1]  for each request 24 bytes: number of its plan B (1 is ARGV[2]); operation B: 0 attempt,
--          1 peek, 2 record, 3 refund, 4 count, 6 settle, 7 extend, 8 block, 9 probe; flags B: 1
--          states are wanted, 2 it has an id, 4 it may wait; instant I7, above 2^53 the server's
--          clock; n I7, units: of a settle those really used, above 2^53 all; and a number I7:
--            attempt  life of the reservation that it opens, 0 none
--            refund   instant of the grant, above 2^53 the oldest entries
--            count    span
--            extend   units that the reservation had before, above 2^53 unknown
--            block    length, 0 ends the blocks
--            others   0
-- ARGV[w]  behind the plans, if an attempt may wait: for each of these attempts the number of the
--          keys of the requests before it I2, and its longest wait I6 (R18).
-- ARGV[p]  a plan: mode B: 0 all or nothing, 1 partial, 2 denied attempts count; number of limits
--          B; form B: 1 if the mode is 0 or 1, and all limits are of kind 0 with a max above 0,
--          without interval, cost and cells; 2 more if a limit has a block; and 4 more if the
--          windows of Periods that follow are given; time I7 for which
--          an operation is remembered. Then for each limit 49 bytes: kind B: 0 rolling or
--          concurrency, 1 fixed, 2 fixed from the first unit, 3 bucket; max I7; window I6; minimum
--          interval I6; cost i8: units of any attempt, 0 its own number, -1 a peek; and numbers a,
--          b and c I7:
--            rolling  width of a cell or 0, 0, 1 for holds or 0
--            fixed    0, 0, 0; or of a Period begin and end of the window around the client's
--                     clock, 0
--            bucket   one unit flows in every a + b/c microseconds, in lowest terms; max is the
--                     capacity
--          With a form of 2 or 3 follows the block of each limit I6: the time for which a denial
--          by it blocks its history, 0 not (R20). Then for rules that join calls: for each call
--          the number of its limits B, and their numbers B from 1. Each of these calls begins a
--          block of its own. With 4 in the form there are at the end, for each limit, the number of
--          windows I2, and the end of each I7: those from the window of now on, or none without a
--          Period; and the size of all this I4.
-- reply    for each request, one after the other:
--          0 B, binding limit B (0 none), granted I7, remaining i8, instant I7, wait i8 (-1
--          never), reset I7, valid I7 (of a grant in full the time until its use may begin, R18;
--          else the time for which a denial stays the same if nothing is written), rest of the
--          longest block I7; then, if wanted, the state of each limit:
--          remaining i8, wait i8, the times until the next unit is there i8, until the interval is
--          over i8, until no unit counts i8, the rest of its block i8, its units ahead i8 and the
--          time until the last appointment i8. The remaining units of a state are its room, also
--          during its block. A refund, a count, a settle and a block use granted and instant.
--          1 B: an operation that is remembered: its reply from the binding limit to the rest of
--          the block, and that limit: length B, its name, its 49 bytes as in the plan, and the
--          number of limits B; or length 0.
--          2 B, instant I7: nothing is decided, because the instant is outside of the window of a
--          Period.
--          3 B, number of the key among those of the request I2, length I2, text: an error;
--          nothing is written, unless the text begins with weir:half. If the script lacks
--          appointments.lua, or windows of a Period, the requests behind it have the same reply:
--          they are not decided.
--          4 B: as 0, but a block began or was set by this request.
--          Replies 0, 1 and 4 to an attempt that opens a reservation, a settle and an extend end
--          with the reservation: its units I7 (0 none), the end of its life I7, the instant of its
--          hold i8 (-1 none), the units of its settlement i8 (-1 open).
local replies, k, clock = {}, 0, nil -- k: the number of keys of the requests before
local decide_plain -- plain.lua has it; the scripts without that file have none
local left = 0 -- the number of a request that decide_plain has left to decide_other

-- answer decides the requests that have no reply yet. Without decide_other it stops at the first
-- one that decide_plain leaves, or at which it fails before a write.
local function answer(decide_other)
  local known, limits
  for j = #replies + 1, #ARGV[1] / 24 do
    local number, op, flags, n, from
    number, op, flags, raw, n, from = decode('>BBBI7I7I7', ARGV[1], 24 * j - 23)
    local plan = ARGV[number + 1]
    if plan ~= known then known, limits = plan, byte(plan, 2) end
    given = raw < 2^53
    if not given then
      if not clock then
        local time = call('TIME')
        clock = time[1] * 1000000 + time[2]
      end
      raw = clock
    end
    current = k
    local fine, reply
    if decide_plain and j ~= left then
      fine, reply = pcall(decide_plain, plan, k, n, limits, 1, true)
    end
    if not reply or not fine and current >= 0 then
      if not decide_other then
        left = j
        return
      end
      fine, reply = pcall(decide_other, plan, k, op, n, from, flags)
    end
    if not fine then
      local text = type(reply) == 'table' and reply.err or tostring(reply)
      text = sub((current < 0 and 'weir:half ' or '') .. text, 1, 1000)
      reply = encode('>BI2I2', 3, math.max(current - k, 0), #text) .. text
      if text == 'weir:state version 5' or sub(text, 1, 13) == 'weir:windows ' then
        for behind = j, #ARGV[1] / 24 do replies[behind] = reply end
        return
      end
    end
    replies[j] = reply
    k = k + limits + (flags % 4 >= 2 and 1 or 0)
  end
end
