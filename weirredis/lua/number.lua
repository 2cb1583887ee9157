{{- /*
Numbers and entries in strings.

A number has as many bytes as it needs; the first byte determines the length:

	0xxxxxxx            7 bits    11110xxx + 4 bytes   35 bits
	10xxxxxx + 1 byte  14 bits    111110xx + 5 bytes   42 bits
	110xxxxx + 2 bytes 21 bits    111111xx + 7 bytes   56 bits
	1110xxxx + 3 bytes 28 bits

A tag and its number share at most 48 bits: above 2^53 a Lua number loses its
lowest bits.

An entry is the time to the next entry and its own units. The first number is twice
the microseconds, plus 1 if the units are not 1; then the units follow. The header has
the mark of the first entry, and each entry leads to the mark of the next. So most
decisions find the entries that count before they decode any.
*/ -}}

{{define "get" -}} {{- /* V = the number at S[P]; P moves past it */ -}}
do
  local a, b, c, d, e = byte({{.S}}, {{.P}}, {{.P}} + 4)
  if a < 0x80 then {{.V}}, {{.P}} = a, {{.P}} + 1
  elseif a < 0xC0 then {{.V}}, {{.P}} = (a - 0x80) * 0x100 + b, {{.P}} + 2
  elseif a < 0xE0 then {{.V}}, {{.P}} = (a - 0xC0) * 0x10000 + b * 0x100 + c, {{.P}} + 3
  elseif a < 0xF0 then {{.V}}, {{.P}} = (a - 0xE0) * 0x1000000 + b * 0x10000 + c * 0x100 + d, {{.P}} + 4
  elseif a < 0xF8 then {{.V}}, {{.P}} = (a - 0xF0) * 0x100000000 + b * 0x1000000 + c * 0x10000 + d * 0x100 + e, {{.P}} + 5
  elseif a < 0xFC then {{.V}}, {{.P}} = (a - 0xF8) * 0x10000000000 + decode('>I5', {{.S}}, {{.P}} + 1), {{.P}} + 6
  else {{.V}}, {{.P}} = decode('>I7', {{.S}}, {{.P}} + 1) end
end
{{- end}}

{{define "put" -}} {{- /* E = the bytes of the number V */ -}}
if {{.V}} < 0x80 then {{.E}} = encode('B', {{.V}})
elseif {{.V}} < 0x4000 then {{.E}} = encode('>I2', {{.V}} + 0x8000)
elseif {{.V}} < 0x200000 then {{.E}} = encode('>I3', {{.V}} + 0xC00000)
elseif {{.V}} < 0x10000000 then {{.E}} = encode('>I4', {{.V}} + 0xE0000000)
elseif {{.V}} < 0x800000000 then {{.E}} = encode('>I5', {{.V}} + 0xF000000000)
elseif {{.V}} < 0x40000000000 then {{.E}} = encode('>I6', {{.V}} + 0xF80000000000)
else {{.E}} = encode('>BI7', 0xFC, {{.V}}) end
{{- end}}

{{define "entry" -}} {{- /* delta, n = the entry at S[P]; P moves past it */ -}}
local delta, n
{{get "delta" .S .P}}
n = delta % 2
delta = (delta - n) / 2
if n == 1 then
{{get "n" .S .P}}
else
  n = 1
end
{{- end}}

{{define "coded" -}} {{- /* E = the bytes of an entry of N units, DELTA before the next */ -}}
do
  local v = ({{.D}}) * 2
  if {{.N}} == 1 then
    {{put "v" .E}}
  else
    local units
    v = v + 1
    {{put "v" .E}}
    v = {{.N}}
    {{put "v" "units"}}
    {{.E}} = {{.E}} .. units
  end
end
{{- end}}
