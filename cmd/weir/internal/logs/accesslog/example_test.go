package accesslog_test

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
)

// Which clients sent the requests, and when?
func ExampleOpen() {
	text := `192.0.2.7 - - [05/Mar/2026:08:00:01 +0100] "GET /search?q=a HTTP/1.1" 200 512 "-" "curl/8"
[2001:db8::1]:443 - ann [05/Mar/2026:08:00:00 +0100] "POST /login HTTP/1.1" 302 0 "-" "Mozilla/5.0"
oops
`
	r, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(text), Reorder: accesslog.DefaultReorder})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(accesslog.RemoteAddr, accesslog.Path) {
		if err != nil {
			log.Fatal(err)
		}
		client, _ := e.Get(accesslog.RemoteAddr)
		path, _ := e.Get(accesslog.Path)
		fmt.Printf("%s %s %s\n", time.UnixMicro(e.At).UTC().Format("15:04:05"), client, path)
	}
	fmt.Println(r.Files()[0].Format, r.Stats().First)
	// Output:
	// 07:00:00 2001:db8::1 /login
	// 07:00:01 192.0.2.7 /search
	// combined [-:3: the line has too few columns]
}
