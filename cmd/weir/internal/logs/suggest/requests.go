package suggest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// requests are all requests of a log by their keys.
type requests struct {
	keys     replay.Keys[struct{}]
	all      []events // by the number of a key
	n        int64    // requests
	units    int64    // their sum, 0 … weir.MaxUnits
	weighted bool     // requests have units of their own
	windows  int      // windows for which each key keeps a peak
	slots    replay.Slots
	bytes    int64 // memory of all events
	newest   int   // the key of the request added last

	hours  hourRecord
	pathOf map[string]uint32
	paths  []string // by their numbers, at most maxPaths; the first has none
	memory int64    // the bound; a quarter of it is left to the reader of logs and to garbage
}

// events are the requests of one key in the order of the log, in a few bytes each: the time
// since the one before, and the units if they differ.
type events struct {
	data []byte
	last int64 // instant of the newest, microseconds since 1970

	traits traits
}

const (
	keyBytes  = 32 + 32 + 40 // memory of events without their data, with traits, and of a profile
	peakBytes = 8            // memory of a peak
	maxPaths  = 4096
	second    = 1_000_000
)

// add adds a request. The error is that of too many of them.
func (r *requests) add(name []byte, at, n int64) error {
	if n > weir.MaxUnits-r.units {
		return &replay.LogError{Problem: fmt.Sprintf("the requests have more than %d units "+
			"together, which is the bound of a limit; use fewer --units, "+
			"or select requests with --where", int64(weir.MaxUnits))}
	}
	r.units += n
	number := r.keys.Add(name)
	if number == len(r.all) {
		r.all = append(r.all, events{})
	}
	r.newest = number
	e := &r.all[number]
	r.bytes -= int64(cap(e.data))
	d := (at-e.last)<<1 | 1
	if whole := (at - e.last) / second; whole*second == at-e.last {
		d = whole << 1 // the last bit tells seconds from microseconds
	}
	e.data = binary.AppendVarint(e.data, d)
	if r.weighted {
		e.data = binary.AppendVarint(e.data, n)
	}
	e.last = at
	r.bytes += int64(cap(e.data))
	r.n++
	r.slots.Add(at, false)
	isFull := func() bool {
		perKey := int64(keyBytes + peakBytes*r.windows)
		return r.keys.Bytes()+perKey*int64(cap(r.all))+r.bytes > r.memory/4*3
	}
	if r.n%4096 == 0 && isFull() {
		return &replay.LogError{Problem: fmt.Sprintf("%d requests of %d keys are more than "+
			"fit in %d MiB; select requests with --where, read fewer files, "+
			"or raise --max-memory", r.n, r.keys.Len(), r.memory>>20)}
	}
	return nil
}

// setBit adds a value to a set of bits.
func setBit(set *uint64, value []byte) {
	const spread = 0x9e3779b1 // the golden ratio, so that the highest bits depend on all
	*set |= 1 << (crc32.Checksum(value, castagnoli) * spread >> 26)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// traitValues are the values of a request from which traits follow; nil = the log has none.
type traitValues struct{ agent, user, path, status []byte }

// noteTraits adds the traits of the request added last.
func (r *requests) noteTraits(v traitValues) {
	t := &r.all[r.newest].traits
	if v.agent != nil {
		setBit(&t.agents, v.agent)
	}
	if v.user != nil {
		setBit(&t.users, v.user)
	}
	if v.path != nil {
		if t.paths == 0 {
			t.path = r.numberOf(v.path)
		}
		setBit(&t.paths, v.path)
	}
	if len(v.status) > 0 && v.status[0] == '4' {
		t.failed++
	}
}

// numberOf returns the number of a path, 0 if there are too many others.
func (r *requests) numberOf(path []byte) uint32 {
	number, known := r.pathOf[string(path)]
	if known || len(r.paths) == maxPaths {
		return number
	}
	if r.pathOf == nil {
		r.pathOf = map[string]uint32{}
		r.paths = []string{""}
	}
	number = uint32(len(r.paths))
	r.paths = append(r.paths, string(path))
	r.pathOf[r.paths[number]] = number
	return number
}

// eachKey calls visit for each key with its requests by time. The requests are valid until visit
// returns.
func (r *requests) eachKey(visit func(key uint32, all []request)) {
	var all []request
	for key := range r.all {
		all = r.requestsOf(uint32(key), all[:0])
		visit(uint32(key), all)
	}
}

// requestsOf appends the requests of a key by time.
func (r *requests) requestsOf(key uint32, all []request) []request {
	one := request{n: 1}
	isSorted := true
	for b := r.all[key].data; len(b) > 0; {
		d, size := binary.Varint(b)
		b = b[size:]
		if d&1 == 0 {
			d *= second
		}
		one.at += d >> 1
		if r.weighted {
			one.n, size = binary.Varint(b)
			b = b[size:]
		}
		isSorted = isSorted && d >= 0
		all = append(all, one)
	}
	if !isSorted {
		slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	}
	return all
}

// calendar divides instants into the days of a time zone.
type calendar struct {
	zone   *time.Location
	days   []Day
	starts []int64 // first instants of days, ascending
	hours  [24]int64
	isCut  bool // there are earlier days
}

// newCalendar returns the days of from … to, at most the newest MaxDays.
func newCalendar(zone *time.Location, from, to int64) *calendar {
	c := &calendar{zone: zone}
	year, month, day := time.UnixMicro(to).In(zone).Date()
	for d := day - MaxDays + 1; d <= day; d++ {
		start := time.Date(year, month, d, 0, 0, 0, 0, zone)
		end := time.Date(year, month, d+1, 0, 0, 0, 0, zone)
		if end.UnixMicro() > from {
			c.starts = append(c.starts, start.UnixMicro())
			c.days = append(c.days, Day{Date: start.Format(time.DateOnly)})
		}
	}
	c.isCut = len(c.starts) > 0 && from < c.starts[0]
	return c
}

// day returns the index of an instant's day, -1 for an earlier one.
func (c *calendar) day(at int64) int {
	after, _ := slices.BinarySearch(c.starts, at+1)
	return after - 1
}

// count counts sorted requests by day and by hour of the day.
func (c *calendar) count(requests []request) {
	end := int64(math.MinInt64) // the end of the hour of the last request
	hour := 0
	day := 0
	for _, r := range requests {
		if r.at >= end {
			var next time.Time
			hour, next = c.hour(r.at)
			end = next.UnixMicro()
			day = c.day(r.at)
		}
		c.hours[hour]++
		if day >= 0 {
			c.days[day].Requests++
		}
	}
}

// hour returns the hour of the day of an instant, and an instant up to which it lasts.
func (c *calendar) hour(at int64) (hour int, end time.Time) {
	t := time.UnixMicro(at).In(c.zone)
	_, change := t.ZoneBounds()
	end = t.Truncate(time.Second).Add(time.Hour).
		Add(-time.Duration(60*t.Minute()+t.Second()) * time.Second)
	if !change.IsZero() && change.Before(end) {
		end = change
	}
	return t.Hour(), end
}

// least returns the least number of days with requests. The first number is that of earlier days.
func (c *calendar) least(numbers []int64) (least int64) {
	least = math.MaxInt64
	if c.isCut {
		least = numbers[0]
	}
	for i, d := range c.days {
		if d.Requests > 0 {
			least = min(least, numbers[i+1])
		}
	}
	return least
}
