module github.com/weirlimit/weir/weirredis/rueidisconn

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79 // a Redis client that pipelines, for servers, Sentinels and Clusters
	github.com/weirlimit/weir v0.0.0
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/weirlimit/weir => ../..
