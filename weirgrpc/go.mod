module github.com/weirlimit/weir/weirgrpc

go 1.26.0

require (
	github.com/weirlimit/weir v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // the status details that gRPC clients read: RetryInfo and QuotaFailure
	google.golang.org/grpc v1.84.0 // gRPC, with its health service
	google.golang.org/protobuf v1.36.12 // the types that all messages share, and their JSON form
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/weirlimit/weir => ..
