package topkeys

// counter is one key and how often it was denied.
type counter struct {
	id   uint64
	n    int64  // denials, never too few
	err  int64  // at most so many of n are others'
	text []byte // the key, by appendKey
}

// counters are the counters of a stripe for one period: a heap with the least count
// on top, and where each key is in it.
type counters struct {
	heap  []counter
	at    map[uint64]int // by id
	total int64          // denials of all keys
}

// add counts one denial. text appends the key to a slice of its own.
func (c *counters) add(id uint64, slots int, text func([]byte) []byte) {
	c.total++
	if i, ok := c.at[id]; ok {
		c.heap[i].n++
		c.down(i)
		return
	}
	if c.at == nil {
		c.at = make(map[uint64]int)
	}
	if len(c.heap) < slots {
		c.push(id, text)
		return
	}
	least := &c.heap[0]
	delete(c.at, least.id)
	least.id, least.err = id, least.n
	least.n++
	least.text = text(least.text[:0])
	c.at[id] = 0
	c.down(0)
}

// push adds a counter. Room that an earlier period has left is used again.
func (c *counters) push(id uint64, text func([]byte) []byte) {
	i := len(c.heap)
	if i < cap(c.heap) {
		c.heap = c.heap[:i+1]
	} else {
		c.heap = append(c.heap, counter{})
	}
	c.heap[i] = counter{id: id, n: 1, text: text(c.heap[i].text[:0])}
	c.at[id] = i
	for ; i > 0 && c.heap[(i-1)/2].n > c.heap[i].n; i = (i - 1) / 2 {
		c.swap(i, (i-1)/2)
	}
}

// down moves a counter that has grown to its place.
func (c *counters) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.heap); child++ {
			if c.heap[child].n < c.heap[least].n {
				least = child
			}
		}
		if least == i {
			return
		}
		c.swap(i, least)
		i = least
	}
}

func (c *counters) swap(i, j int) {
	c.heap[i], c.heap[j] = c.heap[j], c.heap[i]
	c.at[c.heap[i].id], c.at[c.heap[j].id] = i, j
}

// reset forgets everything but the room.
func (c *counters) reset() {
	c.heap = c.heap[:0]
	clear(c.at)
	c.total = 0
}

// bounds returns what a key was denied at least and at most, and whether it has a
// counter. One that has none was denied no more often than the least of the others,
// if there was no room for it.
func (c *counters) bounds(id uint64, slots int) (n, err int64, known bool) {
	if i, ok := c.at[id]; ok {
		return c.heap[i].n, c.heap[i].err, true
	}
	if len(c.heap) == slots {
		return c.heap[0].n, c.heap[0].n, false
	}
	return 0, 0, false
}
