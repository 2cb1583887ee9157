package window

// One decides the commonest attempt: one unit of a rolling window without cells and a
// minimum interval, on a log of single units. It takes the steps of Used, Room, Prune, Add
// and Leave in one pass. That saves a seventh of a decision on a hot key, and a fourteenth
// on one of 10,000 (BenchmarkAllow).
//
// cutoff is now - Window, most the limit's Max, and now is not before Last. used is the
// number of units that count before the attempt, front the end of the oldest of them. If
// record is set and used is below most, One records the attempt.
//
// In every other case it reports false and changes nothing: entries of several units
// leave, the log needs a chunk, or more than most units count.
func (h *History) One(a *Arena, most, cutoff, now int64, record bool) (used, front int64, ok bool) {
	if h.log.empty() {
		return 0, 0, false
	}
	head, tail := h.log.head, h.log.tail
	used, front = h.Total, h.Front
	if front <= cutoff {
		words, pos := &a.At(head.ref()).words, head.pos()
		for oldest := words[pos]; front <= cutoff; {
			if pos++; oldest&1 != 0 || at(head.ref(), pos) == tail&^kindMask {
				return 0, 0, false
			}
			if pos == perChunk {
				if head.ref() != tail.ref() {
					return 0, 0, false
				}
				pos = 0
			}
			if oldest = words[pos]; oldest&3 != 2 {
				return 0, 0, false
			}
			used--
			front += int64(oldest >> 2)
		}
		head = at(head.ref(), pos)
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
			if record {
				c.next = tail.ref()
			}
			pos = 0
		}
	}
	switch {
	case 0 < time && time < narrowTime && pos < perChunk:
		if record {
			words[pos] = uint32(time)<<2 | 2
			tail = at(tail.ref(), pos+1)
		}
	case time == 0 && tail.kind() == middle && words[pos-1]>>unitBits < middleUnits-1:
		if record {
			words[pos-1] += 1 << unitBits
		}
	default:
		return 0, 0, false
	}
	if record {
		h.log.head, h.log.tail = head, tail
		h.Front, h.End, h.Last, h.Total = front, now, now, used+1
	}
	return used, front, true
}
