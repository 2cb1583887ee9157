package accesslog

import (
	"bytes"
	"math"
	"strconv"
)

const (
	micro = 1_000_000
	maxAt = 1<<53 - 1 // weir.MaxInstant
)

const (
	errTime   = problem("the time is in no known notation; use RFC 3339, 10/Oct/2000:13:55:36 -0700, or a number since 1970")
	errNoZone = problem("the time has no zone, and a guess could be wrong by hours; log it with an offset, such as time_iso8601 of nginx")
	errRange  = problem("the time is outside 1970 … 2255")
)

// parseInstant reads an instant in any notation: microseconds since 1970.
func parseInstant(b []byte) (int64, error) {
	switch {
	case len(b) >= 20 && b[2] == '/':
		return parseCLFTime(b)
	case len(b) >= 19 && (b[4] == '-' || b[4] == '/'):
		return parseISOTime(b)
	}
	return parseNumberTime(b)
}

// parseCLFTime reads 10/Oct/2000:13:55:36 -0700, with any fraction.
func parseCLFTime(b []byte) (int64, error) {
	if len(b) < 20 || b[2] != '/' || b[6] != '/' || b[11] != ':' {
		return 0, errTime
	}
	day, ok1 := digits(b[:2])
	month := monthOf(b[3:6])
	year, ok2 := digits(b[7:11])
	clock, ok3 := parseClock(b[12:20])
	fraction, rest := parseFraction(b[20:])
	if len(rest) == 0 {
		return 0, errNoZone
	}
	offset, ok4 := parseZone(bytes.TrimPrefix(rest, []byte(" ")))
	if !ok1 || !ok2 || !ok3 || !ok4 || !validDate(year, month, day) {
		return 0, errTime
	}
	return inRange((days(year, month, day)*86400+clock-offset)*micro + fraction)
}

// parseISOTime reads 2006-01-02T15:04:05.123456Z, with an offset and any fraction.
func parseISOTime(b []byte) (int64, error) {
	if len(b) < 19 || b[7] != b[4] || b[10] != 'T' && b[10] != ' ' && b[10] != 't' {
		return 0, errTime
	}
	at, ok := parseDate(b[:10])
	clock, ok2 := parseClock(b[11:19])
	fraction, rest := parseFraction(b[19:])
	if !ok || !ok2 {
		return 0, errTime
	}
	if len(rest) == 0 {
		return 0, errNoZone
	}
	offset, ok := parseZone(rest)
	if !ok {
		return 0, errTime
	}
	return inRange((at+clock-offset)*micro + fraction)
}

// parseDate reads 2006-01-02 and returns seconds.
func parseDate(b []byte) (int64, bool) {
	if len(b) != 10 || b[4] != b[7] || b[4] != '-' && b[4] != '/' {
		return 0, false
	}
	year, ok1 := digits(b[:4])
	month, ok2 := digits(b[5:7])
	day, ok3 := digits(b[8:10])
	return days(year, month, day) * 86400, ok1 && ok2 && ok3 && validDate(year, month, day)
}

// parseClock reads 15:04:05 and returns seconds. A leap second is the next minute.
func parseClock(b []byte) (int64, bool) {
	if len(b) != 8 || b[2] != ':' || b[5] != ':' {
		return 0, false
	}
	h, ok1 := digits(b[:2])
	m, ok2 := digits(b[3:5])
	s, ok3 := digits(b[6:8])
	return h*3600 + m*60 + s, ok1 && ok2 && ok3 && h < 24 && m < 60 && s <= 60
}

// parseFraction reads .123456789 and returns microseconds and the rest.
func parseFraction(b []byte) (n int64, rest []byte) {
	if len(b) < 2 || b[0] != '.' && b[0] != ',' {
		return 0, b
	}
	i, unit := 1, int64(micro/10)
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		n += int64(b[i]-'0') * unit
		unit /= 10
	}
	return n, b[i:]
}

// parseZone reads Z, +0100, +01:00 or +01 and returns seconds.
func parseZone(b []byte) (int64, bool) {
	if len(b) == 1 && (b[0] == 'Z' || b[0] == 'z') {
		return 0, true
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	h, ok := digits(b[1:3])
	m, ok2 := int64(0), true
	switch {
	case len(b) == 5:
		m, ok2 = digits(b[3:5])
	case len(b) == 6 && b[3] == ':':
		m, ok2 = digits(b[4:6])
	case len(b) != 3:
		return 0, false
	}
	offset := h*3600 + m*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok && ok2 && h < 24 && m < 60
}

// parseNumberTime reads a number since 1970. Its unit follows from its size.
func parseNumberTime(b []byte) (int64, error) {
	i := 0
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	n, ok := digits(b[:i])
	if i == 0 || i > 19 || !ok {
		return 0, errTime
	}
	rest := b[i:]
	if len(rest) > 0 && (rest[0]|0x20 == 'e' || bytes.ContainsAny(rest, "eE")) {
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil || f >= math.MaxInt64 {
			return 0, errTime
		}
		n, rest = int64(f), nil
		if f < 1e11 {
			return inRange(int64(f * micro))
		}
	}
	fraction, rest := parseFraction(rest)
	if len(rest) > 0 {
		return 0, errTime
	}
	switch {
	case n < 1e11:
		return inRange(n*micro + fraction)
	case n < 1e14:
		return inRange(n*1000 + fraction/1000)
	case n < 1e17:
		return inRange(n)
	}
	return inRange(n / 1000)
}

func inRange(at int64) (int64, error) {
	if at < 0 || at > maxAt {
		return 0, errRange
	}
	return at, nil
}

// digits reads a number of at most 19 digits.
func digits(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n >= 0
}

// monthOf returns 1 … 12, or 0.
func monthOf(b []byte) int64 {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for i := 0; i < len(names); i += 3 {
		if b[0] == names[i] && b[1] == names[i+1] && b[2] == names[i+2] {
			return int64(i/3 + 1)
		}
	}
	return 0
}

func validDate(year, month, day int64) bool {
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	most := int64(31)
	switch month {
	case 4, 6, 9, 11:
		most = 30
	case 2:
		most = 28
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			most = 29
		}
	}
	return day <= most
}

// days returns the days from 1970-01-01 to a date of the Gregorian calendar. The year
// begins in March, so that the leap day is its last.
func days(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}
