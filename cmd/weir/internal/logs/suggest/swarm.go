package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/answer"
)

// The bounds of a swarm.
const (
	swarmKeys     = 50        // least number of keys
	swarmShare    = 1.0 / 3   // least share of all keys, or of those of the night if most fail
	swarmRequests = 5         // most requests of a key: guessers try a few times from each address
	swarmTries    = 20        // most requests of a key if most of them fail
	swarmPaths    = 3         // most paths of a key: guessers need a form and its target
	swarmSpan     = 10 * hour // a night
	swarmRate     = 4         // times as many such keys in an hour as at other times
)

// lightKey is a key with few requests in one night.
type lightKey struct {
	key   uint32
	first int64 // instant of its first request
}

// isLight reports whether a key with traits may be one of a swarm, by the number of its requests.
func (t *traits) isLight(requests uint32) bool {
	if t.failed > requests/2 && t.paths != 0 && distinct(t.paths) <= swarmPaths {
		return requests <= swarmTries
	}
	return requests <= swarmRequests
}

// lightKeys returns the light keys by the sets of their paths, each by the instants of their first
// requests. Without paths all are in one set. Keys with many paths are in none: they are visitors.
func (r *requests) lightKeys(keys []profile) map[uint64][]lightKey {
	hasPaths := slices.ContainsFunc(r.all, func(e events) bool { return e.traits.paths != 0 })
	all := map[uint64][]lightKey{}
	var buffer []request
	for key := range keys {
		t := &r.all[key].traits
		isVisitor := hasPaths && (t.paths == 0 || distinct(t.paths) > swarmPaths)
		if isVisitor || !t.isLight(keys[key].requests) {
			continue
		}
		buffer = r.requestsOf(uint32(key), buffer[:0])
		if first, last := buffer[0].at, buffer[len(buffer)-1].at; last-first <= swarmSpan {
			all[t.paths] = append(all[t.paths], lightKey{uint32(key), first})
		}
	}
	for _, same := range all {
		slices.SortFunc(same, func(a, b lightKey) int { return cmp.Compare(a.first, b.first) })
	}
	return all
}

// fullestNight returns the most of sorted keys that appear within swarmSpan.
func fullestNight(all []lightKey) (night []lightKey) {
	begin := 0
	for i := range all {
		for all[begin].first < all[i].first-swarmSpan {
			begin++
		}
		if i-begin >= len(night) {
			night = all[begin : i+1]
		}
	}
	return night
}

// activeIn returns the number of keys with a request from … to.
func (r *requests) activeIn(from, to int64) (n int) {
	r.eachKey(func(_ uint32, all []request) {
		i, _ := slices.BinarySearchFunc(all, from, func(e request, at int64) int {
			return cmp.Compare(e.at, at)
		})
		if i < len(all) && all[i].at <= to {
			n++
		}
	})
	return n
}

// findSwarm returns the advice on many keys that appear in one night with few requests each,
// which no limit by this key can stop; nil if there are none.
func (r *requests) findSwarm(keys []profile, result *Result) *Advice {
	all := r.lightKeys(keys)
	var night []lightKey // the largest one
	for _, same := range all {
		found := fullestNight(same)
		isAsLarge := len(found) == len(night) && found[0].key < night[0].key // in any order of a map
		isLarger := len(found) > len(night) || isAsLarge
		if len(found) >= swarmKeys && isLarger && r.isSwarm(keys, same, found) {
			night = found
		}
	}
	if night == nil {
		return nil
	}
	return r.adviseSwarm(keys, result, night)
}

// failures returns the numbers of all requests and of failed ones of keys, and the largest number of
// requests of one key.
func (r *requests) failures(keys []profile, night []lightKey) (all, failed, largest int64) {
	for _, k := range night {
		n := int64(keys[k.key].requests)
		all += n
		failed += int64(r.all[k.key].traits.failed)
		largest = max(largest, n)
	}
	return all, failed, largest
}

// isSwarm reports whether the keys of a night, of all with the same paths, are a swarm. They must be
// a third of all keys or, if most of their requests fail, of those that are active in the night. They
// must be far more than at other times. A log that is too short to compare the night with must show
// that most requests fail.
func (r *requests) isSwarm(keys []profile, same, night []lightKey) bool {
	requests, failed, _ := r.failures(keys, night)
	mostFail := failed*2 > requests
	nights := float64(r.slots.To-r.slots.From)/float64(swarmSpan) - 1 // the others
	isRare := nights > 1 && float64(len(night)) >= swarmRate*float64(len(same)-len(night))/nights
	isShortLog := nights <= 1
	if !isRare && !(isShortLog && mostFail) {
		return false // visitors come as often at other times
	}
	if float64(len(night)) >= swarmShare*float64(len(keys)) {
		return true
	}
	from := night[0].first
	return mostFail && float64(len(night)) >= swarmShare*float64(r.activeIn(from, from+swarmSpan))
}

// commonPath returns the number of the path with which most of the keys begin. A few may have another
// one, because sets of paths are bits.
func (r *requests) commonPath(night []lightKey) (path uint32) {
	times := map[uint32]int{}
	most := 0
	for _, k := range night {
		first := r.all[k.key].traits.path
		times[first]++
		if times[first] > most {
			path = first
			most = times[first]
		}
	}
	return path
}

// adviseSwarm returns the advice on a swarm.
func (r *requests) adviseSwarm(keys []profile, result *Result, night []lightKey) *Advice {
	requests, failed, largest := r.failures(keys, night)
	share, ofKeys := len(keys), "the keys appear within one night with"
	if float64(len(night)) < swarmShare*float64(len(keys)) {
		from := night[0].first
		share, ofKeys = r.activeIn(from, from+swarmSpan), "the keys of one night have"
	}
	per := "key"
	if len(result.Dimensions) > 0 {
		per = strings.Join(result.Dimensions, " and ")
	}
	text := fmt.Sprintf("no limit per %s helps: %s of %s at most %s each", per,
		percentOf(int64(len(night)), int64(share)), ofKeys, counted(largest, "request", "requests"))
	where := ""
	path := r.commonPath(night)
	switch {
	case path == 0:
	case distinct(r.all[night[0].key].traits.paths) == 1:
		shown := answer.Shown(r.paths[path])
		text += ", all to " + shown
		where = " --where path=" + shown
	default:
		text += ", all to the same paths, such as " + answer.Shown(r.paths[path])
	}
	if failed*2 > requests {
		text += ", and most fail"
	}
	text += "; limit by account, such as --key account=FIELD, or in all: --key ''" + where
	return &Advice{Rule: Swarm, Text: text, Keys: []replay.Key{}}
}
