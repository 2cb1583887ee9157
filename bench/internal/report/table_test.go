package report

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := Table("name", "value")
	table.Row("a|b", "1")
	table.Row("short")
	var got strings.Builder
	table.Print(&got)
	want := "| name | value |\n| --- | --- |\n| a\\|b | 1 |\n| short |  |\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
