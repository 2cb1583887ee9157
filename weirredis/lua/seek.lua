{{- /*
Walking a history. Its older entries stand in runs, oldest first: the front (in
the header), chunks from … to-1 (a field of the hash each), the tail (in the header
again). The newest entry stands by itself in the header.

A place is (s, p, q, c, u): the entry at s[p], whose run ends before s[q], which
is remembered by u, and behind whose run comes run c: chunk c, the tail where
c = to, nothing where c = to + 1. Where p = q there is no entry left but the newest.

Chunks are numbered on and on. Each says where the entry behind it stands, and
its units, so that a walk need not look into it; each 32 of them, from a multiple
of 32 on, have a field b… that says the same of all. A walk through a million
entries so looks at less than a thousand short strings.

A chunk is made of pieces: tails that the header had no more room for, one behind
the other. The last chunk grows by a piece at a time, unless it ends a block, and
the first one gives a piece at a time to the front. What is recorded so goes
through the header in short pieces, and is kept in long ones:

	I7 mark of the entry behind it, B size of its entries, B pieces, B size of each,
	units as in number.lua, entries

Where pieces have gone from a chunk, nobody has counted what is left: its units
are 0, and a walk looks into it.
*/ -}}

{{define "lengthy"}}
-- lengthy makes the functions for long histories. It is made with every run of the script, so it refers to no
-- local from outside: each would cost as much as the function itself.
local lengthy = function()
  local call, byte, encode, decode = redis.call, string.byte, struct.pack, struct.unpack
  local parse, skip, seek, retreat

  -- parse reads the head of a chunk: the mark of the entry behind it, its units, where its entries begin.
  parse = function(text)
    {{head "text"}}
    return behind, units, p
  end

  -- skip goes over whole chunks from c on, and returns the first that seek has to look into.
  skip = function(key, c, u, sum, to, cut, need)
    local step, within = 1, -1
    while c < to do
      local names, blocks = {}, step > 1 and c % {{.Block}} == 0 and c + {{.Block}} <= to and c ~= within
      if blocks then
        for i = 1, math.min(128, math.floor((to - c) / {{.Block}})) do
          names[i] = 'b' .. encode('>I6', c / {{.Block}} + i - 1)
        end
      else
        for i = 1, math.min(step, to - c, {{.Block}} - c % {{.Block}}) do
          names[i] = encode('>I6', c + i - 1)
        end
      end
      for i, text in ipairs(call('HMGET', key, unpack(names))) do
        local behind, units, p
        if blocks then
          if not text then within = c break end
          behind, units = decode('>I7I7', text)
        else
          behind, units, p = parse(text)
        end
        if units == 0 or behind > cut and sum + units >= need then
          if not blocks then return c, u, sum, text, p end
          within = c
          break
        end
        c, u, sum = c + (blocks and {{.Block}} or 1), behind, sum + units
      end
      step = {{.Block}}
    end
    return c, u, sum
  end

  -- seek returns the place of the first entry, from the one at s[p] on, that is remembered by more than cut
  -- and with which at least need units have gone by; then the units before it, and its own.
  seek = function(key, s, p, q, c, u, sum, to, z, o, cut, need)
    while true do
      while p < q do
        local behind = p
        {{entry "s" "behind"}}
        if u > cut and sum + n >= need then return s, p, q, c, u, sum, n end
        sum, u, p = sum + n, u + delta, behind
      end
      if p > q then error('weir:state an entry is cut off', 0) end
      local text, start
      if c < to then c, u, sum, text, start = skip(key, c, u, sum, to, cut, need) end
      if text then
        s, p, q, c = text, start, #text + 1, c + 1
      elseif c == to then
        s, p, q, c = z, o, #z + 1, to + 1
      else
        return z, #z + 1, #z + 1, to + 1, u, sum, 0
      end
    end
  end

  -- retreat forgets the entries remembered by more than cut: the last of the others becomes the newest. It
  -- returns the history that remains: its front, first mark, end of chunks, tail with its units, the newest
  -- entry (-1 where nothing remains), and the units of all.
  retreat = function(key, s, p, q, from, first, to, z, o, cut)
    local rs, rp, _, rc, u, kept = seek(key, s, p, q, from, first, 0, to, z, o, cut, 0)
    local b = p -- where the run begins that holds the entry to stay
    local begins = function()
      if rc == from then b = p elseif rc == to + 1 then b = o else _, _, b = parse(rs) end
    end
    begins()
    if rp == b and rc > from then -- it is the last of the run before
      if rc == to + 1 then rc = to else rc = rc - 1 end
      if rc > from then rs = call('HGET', key, encode('>I6', rc - 1)) else rs, rc = s, from end
      begins()
      rp = rc == from and q or #rs + 1
    end
    if rp == b then return '', 1, 1, 0, from, '', 1, 0, -1, 0, 0 end
    local last, units, gap, late, at = b, 0, 0, 0, b
    while at < rp do
      last, late = at, late + units
      {{entry "rs" "at"}}
      gap, units = delta, n
    end
    if rc == from then return s, p, last, first, from, '', 1, 0, u - gap, units, kept end
    if rc <= to then to = rc - 1 end
    return s, p, q, first, to, string.sub(rs, 1, last - 1), b, late, u - gap, units, kept
  end

  return parse, seek, retreat
end
{{end}}

{{define "head"}} {{- /* the head of the chunk TEXT: behind, size, pieces, units; its entries begin at p */}}
    if not {{.S}} or #{{.S}} < 12 then error('weir:state a chunk is missing or cut off', 0) end
    local behind, size, pieces = decode('>I7BB', {{.S}})
    local units, p = 0, 10 + pieces
    if #{{.S}} <= p then error('weir:state a chunk is cut off', 0) end
    {{get "units" .S "p"}}
    if #{{.S}} - p + 1 ~= size then error('weir:state a chunk is cut off', 0) end
{{end}}
