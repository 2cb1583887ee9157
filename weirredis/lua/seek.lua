{{- /*
Walking a history. The older entries are kept in runs, oldest first: the front (in the
header), chunks from … to - 1 (a field of the hash each), the tail (in the header, too).
The newest entry is kept by itself in the header.

A place is (s, p, q, c, u): the entry at s[p] with mark u, whose run ends before s[q] and
is followed by run c: chunk c, the tail if c = to, nothing if c = to + 1. If p = q, only
the newest entry is left.

Chunks are numbered consecutively. The head of a chunk holds the mark of the entry after
it, and its units, so that a walk can skip it. Each 32 chunks, from a multiple of 32 on,
have a field b… with the same two numbers for all of them. So a walk through a million
entries reads less than a thousand short strings.

A chunk consists of pieces: former tails that outgrew the header, in their order. The
last chunk grows by a piece at a time, unless it ends a block. The first chunk loses a
piece at a time to the front. So the header stays short, and entries are stored in long
strings:

	I7 mark of the entry after it, B size of its entries, B number of pieces, B size of each,
	units as in number.lua, entries

A chunk that has lost pieces has 0 in place of its units, and a walk reads its entries.
*/ -}}

{{define "lengthy"}}
-- lengthy makes the functions for long histories. Every run of the script creates lengthy, so it uses no local
-- variable from outside: each would cost as much as the function itself.
local lengthy = function()
  local call, byte, encode, decode = redis.call, string.byte, struct.pack, struct.unpack
  local parse, skip, seek, retreat

  -- parse returns the head of a chunk: the mark of the entry after it, its units, the start of its entries.
  parse = function(text)
    {{head "text"}}
    return behind, units, p
  end

  -- skip passes whole chunks from c on and returns the first one that seek has to read.
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

  -- seek returns the place of an entry, from s[p] on; then the units before it, and its own. It is the first entry
  -- with a mark above cut with which at least need units have passed.
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

  -- retreat removes the entries with marks above cut: the last of the others becomes the newest. It returns the rest
  -- of the history: front, first mark, end of the chunks, tail with its units, the newest entry (-1 if none is
  -- left), and the units of all.
  retreat = function(key, s, p, q, from, first, to, z, o, cut)
    local rs, rp, _, rc, u, kept = seek(key, s, p, q, from, first, 0, to, z, o, cut, 0)
    local b = p -- start of the run of the entry that becomes the newest.
    local begins = function()
      if rc == from then b = p elseif rc == to + 1 then b = o else _, _, b = parse(rs) end
    end
    begins()
    if rp == b and rc > from then -- the entry is the last of the run before.
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
