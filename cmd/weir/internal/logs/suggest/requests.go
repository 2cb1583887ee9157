package suggest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// requests are all requests of a log by their keys.
type requests struct {
	keys     replay.Keys
	all      []events // by the number of a key
	n        int64    // requests
	units    int64    // of all of them, 0 … weir.MaxUnits
	weighted bool     // requests have units of their own
	slots    replay.Slots
	bytes    int64 // memory of all events
	memory   int64 // the bound; a quarter of it is left to the reader of logs and to garbage
}

// events are the requests of one key in the order of the log, in a few bytes each: the time
// since the one before, and the units if they differ.
type events struct {
	data []byte
	last int64 // instant of the newest, microseconds since 1970
}

const (
	eventsBytes = 32 // memory of events without their data
	second      = 1_000_000
)

// add adds a request. The error is that of too many of them.
func (r *requests) add(name []byte, at, n int64) error {
	if n > weir.MaxUnits-r.units {
		return &replay.LogError{Problem: fmt.Sprintf("the requests have more than %d units together, which is the bound of a limit; use fewer --units, or select requests with --where", int64(weir.MaxUnits))}
	}
	r.units += n
	number := r.keys.Add(name)
	if number == len(r.all) {
		r.all = append(r.all, events{})
	}
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
	if r.n%4096 == 0 && r.keys.Bytes()+eventsBytes*int64(cap(r.all))+r.bytes > r.memory/4*3 {
		return &replay.LogError{Problem: fmt.Sprintf("%d requests of %d keys are more than fit in %d MiB; select requests with --where, read fewer files, or raise --max-memory",
			r.n, r.keys.Len(), r.memory>>20)}
	}
	return nil
}

// eachKey calls visit for each key with its requests, in the order of the log. The requests
// are valid until visit returns.
func (r *requests) eachKey(visit func(key uint32, all []request)) {
	var all []request
	for key := range r.all {
		all = all[:0]
		one := request{n: 1}
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
			all = append(all, one)
		}
		visit(uint32(key), all)
	}
}

// calendar divides instants into the days of a time zone.
type calendar struct {
	zone   *time.Location
	days   []Day
	starts []int64 // of the days, ascending
}

// newCalendar returns the days of from … to, at most the newest MaxDays.
func newCalendar(zone *time.Location, from, to int64) *calendar {
	c := &calendar{zone: zone}
	year, month, day := time.UnixMicro(to).In(zone).Date()
	for d := day - MaxDays + 1; d <= day; d++ {
		start, end := time.Date(year, month, d, 0, 0, 0, 0, zone), time.Date(year, month, d+1, 0, 0, 0, 0, zone)
		if end.UnixMicro() > from {
			c.starts = append(c.starts, start.UnixMicro())
			c.days = append(c.days, Day{Date: start.Format(time.DateOnly)})
		}
	}
	return c
}

// day returns the index of an instant's day, -1 for an earlier one.
func (c *calendar) day(at int64) int {
	after, _ := slices.BinarySearch(c.starts, at+1)
	return after - 1
}

// count counts all requests by day, and returns their numbers by hour of the day.
func (c *calendar) count(r *requests) (hours [24]int64) {
	r.eachKey(func(_ uint32, all []request) {
		for _, r := range all {
			hours[time.UnixMicro(r.at).In(c.zone).Hour()]++
			if day := c.day(r.at); day >= 0 {
				c.days[day].Requests++
			}
		}
	})
	return hours
}
