module github.com/weirlimit/weir/cmd/weir/internal/report/browsertest

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0 // tests: the protocol of the browser
	github.com/chromedp/chromedp v0.23.0 // tests: a browser that opens the report
	github.com/weirlimit/weir v0.0.0
	github.com/weirlimit/weir/cmd/weir v0.0.0
)

require github.com/go-json-experiment/json v1.27.2 // indirect

replace (
	github.com/weirlimit/weir => ../../../../..
	github.com/weirlimit/weir/cmd/weir => ../../..
	github.com/weirlimit/weir/weirredis/goredisconn => ../../../../../weirredis/goredisconn
	github.com/weirlimit/weir/weirredis/rueidisconn => ../../../../../weirredis/rueidisconn
)
