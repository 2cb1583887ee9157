package topkeys

// counter counts the denials of one key.
type counter struct {
	id   uint64
	n    int64  // denials, never too low
	err  int64  // the most by which n is too high
	text []byte // the key, by appendKey
}

// counters are the counters of a stripe for one period. A search among these few for the
// least count takes less time than to keep them as a heap, in which places change with
// every denial.
type counters struct {
	all   []counter
	at    map[uint64]int // ids to places in all
	total int64          // denials of all keys
}

// add counts one denial. text appends the key to its argument.
func (c *counters) add(id uint64, slots int, text func([]byte) []byte) {
	c.total++
	if i, ok := c.at[id]; ok {
		c.all[i].n++
		return
	}
	if c.at == nil {
		c.at = make(map[uint64]int)
	}
	i, least := len(c.all), int64(0)
	switch {
	case i == slots:
		i = c.least()
		delete(c.at, c.all[i].id)
		least = c.all[i].n
	case i < cap(c.all):
		c.all = c.all[:i+1] // with the memory of an earlier period
	default:
		c.all = append(c.all, counter{})
	}
	c.all[i] = counter{id: id, n: least + 1, err: least, text: text(c.all[i].text[:0])}
	c.at[id] = i
}

// least returns the place of the counter with the least count.
func (c *counters) least() (least int) {
	for i := range c.all {
		if c.all[i].n < c.all[least].n {
			least = i
		}
	}
	return least
}

// reset drops all counters and keeps their memory.
func (c *counters) reset() {
	c.all = c.all[:0]
	clear(c.at)
	c.total = 0
}

// bounds returns the most denials of a key, the error of that number, and whether the
// key has a counter. Without one, in a full set, it was denied no more often than the
// least of the others.
func (c *counters) bounds(id uint64, slots int) (n, err int64, known bool) {
	if i, ok := c.at[id]; ok {
		return c.all[i].n, c.all[i].err, true
	}
	if len(c.all) == slots {
		n = c.all[c.least()].n
	}
	return n, n, false
}
