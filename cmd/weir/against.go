package main

import (
	"fmt"
	"io"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/answer"
)

// jsonAgainst is the comparison with the file of --against as JSON.
type jsonAgainst struct {
	File     string                `json:"file"`
	Policies map[string]jsonChange `json:"policies"`
}

// jsonChange has null in place of the decisions of a file without the policy, and in place
// of keys if the files count by different dimensions.
type jsonChange struct {
	Old                *jsonDecided     `json:"old"`
	New                *jsonDecided     `json:"new"`
	KeysNewlyDenied    *int64           `json:"keys_newly_denied"`
	KeysNoLongerDenied *int64           `json:"keys_no_longer_denied"`
	NewlyDenied        []jsonChangedKey `json:"newly_denied"`
	NoLongerDenied     []jsonChangedKey `json:"no_longer_denied"`
}

type jsonDecided struct {
	Allowed    int64 `json:"allowed"`
	Denied     int64 `json:"denied"`
	Keys       int64 `json:"keys"`
	KeysDenied int64 `json:"keys_denied"`
}

type jsonChangedKey struct {
	Key    map[string]string `json:"key"`
	Denied int64             `json:"denied"`
}

func againstJSON(file string, changes []replay.LogChange) *jsonAgainst {
	out := &jsonAgainst{file, map[string]jsonChange{}}
	decided := func(p *replay.LogPolicySummary) *jsonDecided {
		if p == nil {
			return nil
		}
		return &jsonDecided{p.Allowed, p.Denied, p.Keys, p.KeysDenied}
	}
	keys := func(k replay.LogKeyChanges) []jsonChangedKey {
		all := []jsonChangedKey{}
		for _, one := range k.Top {
			all = append(all, jsonChangedKey{keyJSON(one.Key), one.Denied})
		}
		return all
	}
	for _, c := range changes {
		j := jsonChange{Old: decided(c.Old), New: decided(c.New)}
		if c.Comparable {
			j.KeysNewlyDenied, j.NewlyDenied = &c.NewlyDenied.Keys, keys(c.NewlyDenied)
			j.KeysNoLongerDenied, j.NoLongerDenied = &c.NoLongerDenied.Keys, keys(c.NoLongerDenied)
		}
		out.Policies[c.Policy] = j
	}
	return out
}

// printChanges writes the comparison for people.
func printChanges(out io.Writer, file string, changes []replay.LogChange) error {
	fmt.Fprintf(out, "\nagainst %s:\n\n", answer.Shown(file))
	rows := [][]string{{"POLICY", "REQUESTS DENIED", "KEYS DENIED", "NEWLY DENIED", "NO LONGER DENIED"}}
	for _, c := range changes {
		row := []string{c.Policy, "", "", "-", "-"}
		switch {
		case c.Old == nil:
			row[1], row[2] = fmt.Sprintf("new: %d", c.New.Denied), fmt.Sprintf("new: %d", c.New.KeysDenied)
		case c.New == nil:
			row[1], row[2] = fmt.Sprintf("%d, removed", c.Old.Denied), fmt.Sprintf("%d, removed", c.Old.KeysDenied)
		default:
			row[1] = fmt.Sprintf("%d → %d (%+d)", c.Old.Denied, c.New.Denied, c.New.Denied-c.Old.Denied)
			row[2] = fmt.Sprintf("%d → %d", c.Old.KeysDenied, c.New.KeysDenied)
		}
		if c.Comparable {
			row[3], row[4] = counted(c.NewlyDenied.Keys, "key", "keys"), counted(c.NoLongerDenied.Keys, "key", "keys")
		}
		rows = append(rows, row)
	}
	if err := writeTable(out, "lllll", rows); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Old != nil && c.New != nil && !c.Comparable {
			fmt.Fprintf(out, "\n%s counts by other keys in %s, so keys cannot be compared\n", c.Policy, answer.Shown(file))
		}
		if err := printChangedKeys(out, c.Policy+" newly denies", c.NewlyDenied); err != nil {
			return err
		}
		if err := printChangedKeys(out, c.Policy+" no longer denies", c.NoLongerDenied); err != nil {
			return err
		}
	}
	return nil
}

func printChangedKeys(out io.Writer, title string, keys replay.LogKeyChanges) error {
	if keys.Keys == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	rows := [][]string{{"KEY", "REQUESTS DENIED"}}
	for _, k := range keys.Top {
		rows = append(rows, []string{keyText(k.Key), number(k.Denied)})
	}
	if n := keys.Keys - int64(len(keys.Top)); n > 0 {
		rows = append(rows, []string{"and " + counted(n, "more", "more"), ""})
	}
	return writeTable(printable{out}, "lr", rows)
}
