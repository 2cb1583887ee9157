package policy

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/duration"
)

// maxRespelled is the length of the longest line, in bytes, for which an error suggests another.
const maxRespelled = 200

// mostRespelled is the number of errors of a file for which lines are suggested: a suggestion
// allocates a few hundred kilobytes, with a time zone two megabytes.
const mostRespelled = 3

// respell returns the limit line that a line with other words means, such as "10 per second per
// ip" for "10r/s/ip", or "". It only serves error messages: a file has one spelling.
func respell(line string) string {
	if len(line) > maxRespelled {
		return ""
	}
	text := respellClauses(respellRate(strings.Join(strings.Fields(line), " ")))
	var d *limitBuilder
	f := catch(func() {
		d = parseWords(text, func(i int) int { return i })
		d.complete()
		d.validate()
	})
	if f != nil {
		return ""
	}
	return sentence(d.limit, d.unit)
}

// spelling is a way to write a part of a limit, and the grammar's words for it.
type spelling struct {
	other func() *regexp.Regexp
	here  string
}

func spelled(other, here string) spelling { return spelling{compiled("(?i)" + other), here} }

// compiled returns a function that compiles a pattern when it is first called: most programs read
// no wrong line.
func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// rateSpellings are those of the count, the window and the keys: all before the first comma.
var rateSpellings = []spelling{
	spelled(`^(\d+)-([smhd])$`, "$1 per $2"), // ulule/limiter
	spelled(`^(?:infinite|infinity|no limit|unlimited)\b`, "unlimited"),
	spelled(`^(\S+?) ?(?:rps|qps)\b`, "$1 per second"),
	spelled(`^(\S+?) ?(?:rpm|qpm)\b`, "$1 per minute"),
	spelled(`^(\S+?) ?rph\b`, "$1 per hour"),
	spelled(`^([\d.]+[km]?) ?(?:r|reqs?)? ?/ ?`, "$1 per "), // nginx
	spelled(` (?:every|each|an?|in|over) (\d|second|minute|hour|day|week)`, " per $1"),
	spelled(`^(\S+) (second|minute|hour|day|week)(s?)\b`, "$1 per $2$3"),
	spelled(` (?:by|and|for each|for every|per each) `, " per "),
	spelled(` ?[&+] ?`, " per "),
	spelled(` \(([\w.-]+)\)`, " per $1"),
	spelled(` (concurrent|concurrently|parallel|simultaneous|simultaneously|in[ -]flight) `,
		" at once "),
}

// windowSpellings are those of the names of windows.
var windowSpellings = []spelling{
	spelled(`\bper (?:s|sec|second)s?\b`, "per second"),
	spelled(`\bper (?:m|min|minute)s?\b`, "per minute"),
	spelled(`\bper (?:h|hr|hour)s?\b`, "per hour"),
	spelled(`\bper (?:d|day)s?\b`, "per day"),
	spelled(`\bper weeks?\b`, "per week"),
}

// missingComma is often left out before a clause.
var missingComma = spelled(`([^, ]) ((?:\d\S* (?:\w+ )?apart|fixed|burst \d+|then block)\b)`,
	"$1, $2")

// clauseSpellings are those of one clause behind a comma.
var clauseSpellings = []spelling{
	spelled(`^burst ?(?:of|size|=|:)? ?(\d+)(?: \w+)?$`, "burst $1"),
	spelled(`^(?:and |then )*block(?:ed)?(?: for)? (\S+)$`, "then block $1"),
	spelled(`^(?:min|minimum|at least|every|interval|spacing) (\d\S*)(?: apart)?$`, "$1 apart"),
	spelled(`^(\d\S*) (?:apart|between|interval|spacing|delay)$`, "$1 apart"),
	spelled(`^(?:for )?(?:at most|max|up to|for) (\d\S*)$`, "for at most $1"),
	spelled(`^fixed(?: windows?)?\b`, "fixed"),
	spelled(`^(?:rolling|sliding)(?: windows?)?$`, ""),
	spelled(`^per ([a-z][\w.-]*)$`, "per $1"),
}

var (
	// A count in digits, in groups or with a fraction, and a factor.
	otherCount = compiled(`(?i)^(\d{1,3}(?:[ ,']\d{3})+|[\d_]+(?:\.\d{1,2})?)` +
		`(k|m| thousand| million| billion)?\b`)
	// A count with a fraction, a unit, and a length of time or the name of a window.
	fraction = compiled(`^(\d+\.\d{1,2})( \w+)? per ([a-z0-9]+)`)
	// A key in capitals, quotes or braces.
	otherKey = compiled(`\bper ["'{<]?[\w.-]+["'}>]?`)
	slash    = compiled(` ?/ ?`)

	otherLengths = compiled(`(?i)\b` + length + `(?: ?` + length + `)*\b`)
	oneLength    = compiled(`(?i)(\d+(?:\.\d+)?) ?(` + unitNames + `)`)
)

const length = `\d+(?:\.\d+)? ?(?:` + unitNames + `)`

const unitNames = `milliseconds?|msecs?|ms|us|seconds?|secs?|s|minutes?|mins?|m|` +
	`hours?|hrs?|h|days?|d|weeks?|w`

// lengthOfUnit returns the length of a unit of time in one of the spellings of unitNames.
func lengthOfUnit(name string) time.Duration {
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "mil"), strings.HasPrefix(name, "ms"):
		return time.Millisecond
	case name == "us":
		return time.Microsecond
	case name[0] == 's':
		return time.Second
	case name[0] == 'm':
		return time.Minute
	case name[0] == 'h':
		return time.Hour
	case name[0] == 'd':
		return day
	}
	return 7 * day
}

// respellLengths writes each length of time as the file does: "90m" for "1.5 hours" and "1h 30m".
func respellLengths(text string) string {
	return otherLengths().ReplaceAllStringFunc(text, func(length string) string {
		var sum time.Duration
		for _, part := range oneLength().FindAllStringSubmatch(length, -1) {
			n, err := strconv.ParseFloat(part[1], 64)
			unit := lengthOfUnit(part[2])
			if err != nil || n*float64(unit) > float64(weir.MaxWindow) {
				return length
			}
			sum += time.Duration(n * float64(unit)).Round(time.Microsecond)
		}
		return duration.Format(sum)
	})
}

// respellRate respells the part of a line before its first comma.
func respellRate(line string) string {
	rate, clauses, more := strings.Cut(respellCount(strings.ReplaceAll(line, ";", ",")), ",")
	rate, clause, missing := strings.Cut(missingComma.replace(rate), ",")
	if missing {
		more = true
		clauses = strings.TrimSuffix(clause+","+clauses, ",")
	}
	for _, s := range rateSpellings {
		rate = s.replace(rate)
	}
	rate = slash().ReplaceAllString(rate, " per ")
	rate = respellWindows(rate)
	if count, window, found := strings.Cut(rate, " per "); found {
		rate = respellFraction(count + " per " + respellLengths(window))
	}
	rate = otherKey().ReplaceAllStringFunc(rate, func(key string) string {
		return "per " + respellName(strings.TrimPrefix(key, "per "))
	})
	if more {
		rate += "," + clauses
	}
	return rate
}

// respellWindows respells the windows behind per.
func respellWindows(rate string) string {
	for _, s := range windowSpellings {
		rate = s.replace(rate)
	}
	return rate
}

// respellWindow respells one window: a name or a length.
func respellWindow(word string) string {
	return strings.TrimPrefix(respellLengths(respellWindows("per "+strings.ToLower(word))), "per ")
}

// respellName returns the name that a word in capitals, quotes or braces, or words, mean.
func respellName(word string) string {
	return strings.ReplaceAll(strings.ToLower(strings.Trim(word, `"'{}<>$: `)), " ", "-")
}

// factors are those of a count.
var factors = map[string]float64{
	"k":        1e3,
	"thousand": 1e3,
	"m":        1e6,
	"million":  1e6,
	"billion":  1e9,
}

// respellCount writes the count as the file does: 10000 for "10k", "10,000" and "10 thousand".
func respellCount(line string) string {
	count := otherCount().FindStringSubmatch(line)
	if count == nil {
		return line
	}
	digits := strings.NewReplacer(" ", "", ",", "", "'", "").Replace(count[1])
	if factor := factors[strings.TrimSpace(strings.ToLower(count[2]))]; factor > 0 {
		n, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
		if err != nil || n*factor > float64(weir.MaxUnits) {
			return line
		}
		digits = strconv.FormatInt(int64(math.Round(n*factor)), 10)
	}
	return digits + line[len(count[0]):]
}

// respellFraction writes a fraction of a unit as whole units in a longer window: "1 per 2s" for
// "0.5 per second".
func respellFraction(rate string) string {
	parts := fraction().FindStringSubmatch(rate)
	if parts == nil {
		return rate
	}
	hundredths, err := strconv.ParseFloat(parts[1], 64)
	n := int64(math.Round(hundredths * 100))
	window, ok := parseWindow(parts[3])
	for _, times := range []int64{1, 2, 4, 5, 10, 20, 25, 50, 100} {
		if err == nil && ok && n*times%100 == 0 && window < weir.MaxWindow/100 {
			count := strconv.FormatInt(n*times/100, 10)
			return count + parts[2] +
				" per " + duration.Format(window*time.Duration(times)) + rate[len(parts[0]):]
		}
	}
	return rate
}

// respellClauses respells the clauses of a line.
func respellClauses(line string) string {
	clauses := strings.Split(line, ",")
	text := clauses[0]
	for _, clause := range clauses[1:] {
		clause = respellLengths(strings.TrimSpace(clause))
		word, _, _ := strings.Cut(clause, " ")
		if _, misplaced := partsOfPolicies[word]; misplaced {
			return ""
		}
		for _, s := range clauseSpellings {
			changed := s.replace(clause)
			if changed != clause || s.other().MatchString(clause) {
				clause = changed
				break
			}
		}
		switch {
		case clause == "":
		case strings.HasPrefix(clause, "per "):
			text += " " + clause
		default:
			text += ", " + clause
		}
	}
	return text
}

func (s spelling) replace(text string) string { return s.other().ReplaceAllString(text, s.here) }
