package topkeys

// counter counts the denials of one key.
type counter struct {
	id   uint64
	n    int64  // denials, never too low
	err  int64  // the most by which n is too high
	text []byte // the key, by appendKey
}

// counters are the counters of a stripe for one period: a heap with the least count
// on top.
type counters struct {
	heap  []counter
	at    map[uint64]int // ids to places in heap
	total int64          // denials of all keys
}

// add counts one denial. text appends the key to its argument.
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

// push adds a counter. It reuses the memory of an earlier period.
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

// down restores the heap after the counter at i has grown.
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

// reset drops all counters and keeps their memory.
func (c *counters) reset() {
	c.heap = c.heap[:0]
	clear(c.at)
	c.total = 0
}

// bounds returns the most denials of a key, the error of that number, and whether the
// key has a counter. In a full heap a key without one was denied no more often than the
// least of the others.
func (c *counters) bounds(id uint64, slots int) (n, err int64, known bool) {
	if i, ok := c.at[id]; ok {
		return c.heap[i].n, c.heap[i].err, true
	}
	if len(c.heap) == slots {
		return c.heap[0].n, c.heap[0].n, false
	}
	return 0, 0, false
}
