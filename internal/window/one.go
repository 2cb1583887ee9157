package window

// One decides the commonest attempt: one unit of a rolling window without cells and a
// minimum interval. It takes the steps of Used, Room, Prune, Add and Leave in one pass, and
// neither takes nor frees a chunk. That saves a seventh of a decision on a hot key, and a
// fourteenth on one of 10,000 (BenchmarkAllow).
//
// cutoff is now - Window, most the limit's Max, and now is not before Last. used is the
// number of units that count before the attempt, front the end of the oldest of them, or
// now if there is none. If used is below most, One records the attempt.
//
// In every other case it reports false and changes nothing: a chunk is needed or becomes
// free, more than most units count, or most is 0.
func (h *History) One(a *Arena, most, cutoff, now int64) (used, front int64, ok bool) {
	if h.End <= cutoff {
		return h.oneOfNone(a, most, now)
	}
	if h.log.empty() {
		return h.oneOfEntry(a, most, now)
	}
	head, tail := h.log.head, h.log.tail
	used, front = h.Total, h.Front
	if front <= cutoff {
		if used, front, head = h.dropOne(a, cutoff); head == 0 {
			return 0, 0, false
		}
	}
	if used >= most {
		return used, front, used == most
	}
	c, pos, time := a.At(tail.ref()), tail.pos(), now-h.End
	words := &c.words
	if time > 0 && head.ref() == tail.ref() {
		switch {
		case pos+1 == head.pos():
			return 0, 0, false
		case pos == perChunk && head.pos() > 1:
			c.next = tail.ref()
			pos = 0
		}
	}
	switch {
	case 0 < time && time < narrowTime && pos < perChunk:
		words[pos] = uint32(time)<<2 | 2
		tail = at(tail.ref(), pos+1)
	case time == 0 && tail.kind() == middle && words[pos-1]>>unitBits < middleUnits-1:
		words[pos-1] += 1 << unitBits
	case time == 0 && tail.kind() == narrow && h.log.chunks(1) == 0:
		h.log.head = head
		h.log.grow(a, 1)
		tail = h.log.tail
	default:
		return 0, 0, false
	}
	h.log.head, h.log.tail = head, tail
	h.Front, h.End, h.Last, h.Total = front, now, now, used+1
	return used, front, true
}

// dropOne finds the entries that count, as Used does, if some do not and others do: their
// units, the end of the oldest and its place. The place is 0 if a chunk would become free.
func (h *History) dropOne(a *Arena, cutoff int64) (used, front int64, head place) {
	ref, pos := h.log.head.ref(), h.log.head.pos()
	used, front = h.Total, h.Front
	words := &a.At(ref).words
	for oldest := words[pos]; front <= cutoff; {
		if pos++; oldest&1 == 0 {
			if pos == perChunk {
				if ref != h.log.tail.ref() {
					return 0, 0, 0
				}
				pos = 0
			}
			oldest = words[pos]
		}
		if oldest&3 != 2 { // not one unit: the general way
			used, from := h.Used(a, cutoff)
			if from.place.ref() != ref {
				return 0, 0, 0
			}
			return used, from.end, from.place
		}
		used--
		front += int64(oldest >> 2)
	}
	return used, front, at(ref, pos)
}

// oneOfNone is One if nothing counts. A log keeps its only chunk for the new entry.
func (h *History) oneOfNone(a *Arena, most, now int64) (used, front int64, ok bool) {
	if most == 0 || h.log.head.ref() != h.log.tail.ref() {
		return 0, 0, false
	}
	if !h.log.empty() {
		a.changed(h)
		h.log.restart()
		h.log.add(a, 0, 1)
	}
	h.End, h.Front, h.Last, h.Total = now, now, now, 1
	return 0, now, true
}

// oneOfEntry is One of a history without a log, if its entry counts.
func (h *History) oneOfEntry(a *Arena, most, now int64) (used, front int64, ok bool) {
	used = h.Total
	switch {
	case used >= most:
		return used, h.Front, used == most
	case now > h.End:
		return 0, 0, false
	}
	h.Add(a, now, now, 1)
	return used, h.Front, true
}
