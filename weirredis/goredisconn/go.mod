module github.com/weirlimit/weir/weirredis/goredisconn

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0 // the Redis client that most Go programs use
	github.com/weirlimit/weir v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/weirlimit/weir => ../..
