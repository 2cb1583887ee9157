package strictjson

import "math"

// Number reads a whole number of 64 bits. A fraction or an exponent is an error, also of a
// whole value such as 1.0. desc names the number in errors.
func (s *Scanner) Number(desc string) (int64, error) {
	negative := s.Peek() == '-'
	at := s.i + 1
	if negative {
		s.i++
	}
	digits := s.i
	var n uint64
	for _, c := range s.b[digits:] {
		d := c - '0'
		if d > 9 {
			break
		}
		if n > math.MaxInt64/10 {
			return 0, s.Fault(at, desc+" is too large for a whole number of 64 bits")
		}
		n = n*10 + uint64(d)
		s.i++
	}
	switch {
	case s.i == digits && negative:
		return 0, s.Fault(at, desc+" is a minus sign without digits")
	case s.i == digits:
		return 0, s.Unexpected(desc + ", a whole number, should stand here")
	case s.b[digits] == '0' && s.i > digits+1:
		return 0, s.Fault(at, desc+" begins with 0; write it without")
	case s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i]|0x20 == 'e'):
		return 0, s.Fault(at, desc+" is not written as a whole number; write 1000, not 1e3 or 1000.0")
	case negative && n <= 1<<63:
		return int64(-n), nil
	case negative || n > math.MaxInt64:
		return 0, s.Fault(at, desc+" is too large for a whole number of 64 bits")
	}
	return int64(n), nil
}
