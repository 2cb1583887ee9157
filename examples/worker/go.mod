module github.com/weirlimit/weir/examples/worker

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79 // a Redis client that pipelines, for servers, Sentinels and Clusters
	github.com/weirlimit/weir v0.0.0
	github.com/weirlimit/weir/weirredis/rueidisconn v0.0.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace (
	github.com/weirlimit/weir => ../..
	github.com/weirlimit/weir/weirredis/rueidisconn => ../../weirredis/rueidisconn
)
