package main

import (
	"fmt"
	"io"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/answer"
)

// printChanges writes the comparison for people.
func printChanges(out io.Writer, changes *replay.LogChanges) error {
	file := answer.Shown(changes.File)
	fmt.Fprintf(out, "\nagainst %s:\n\n", file)
	rows := [][]string{{"POLICY", "REQUESTS DENIED", "KEYS DENIED", "NEWLY DENIED", "NO LONGER DENIED"}}
	for _, c := range changes.Policies {
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
		if c.KeysNewlyDenied != nil {
			row[3], row[4] = counted(*c.KeysNewlyDenied, "key", "keys"), counted(*c.KeysNoLongerDenied, "key", "keys")
		}
		rows = append(rows, row)
	}
	if err := writeTable(out, "lllll", rows); err != nil {
		return err
	}
	for _, c := range changes.Policies {
		if c.Old != nil && c.New != nil && c.KeysNewlyDenied == nil {
			fmt.Fprintf(out, "\n%s counts by other keys in %s, so keys cannot be compared\n", c.Policy, file)
		}
		if err := printChangedKeys(out, c.Policy+" newly denies", c.KeysNewlyDenied, c.NewlyDenied); err != nil {
			return err
		}
		if err := printChangedKeys(out, c.Policy+" no longer denies", c.KeysNoLongerDenied, c.NoLongerDenied); err != nil {
			return err
		}
	}
	return nil
}

func printChangedKeys(out io.Writer, title string, all *int64, top []replay.LogKeyChange) error {
	if len(top) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	rows := [][]string{{"KEY", "REQUESTS DENIED"}}
	for _, k := range top {
		rows = append(rows, []string{keyText(k.Key), number(k.Denied)})
	}
	if n := *all - int64(len(top)); n > 0 {
		rows = append(rows, []string{"and " + counted(n, "more", "more"), ""})
	}
	return writeTable(printable{out}, "lr", rows)
}
