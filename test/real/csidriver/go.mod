module github.com/csi-operators/csi-operators/test/real/csidriver

go 1.26.0

require (
	github.com/container-storage-interface/spec v1.13.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	golang.org/x/sys v0.45.0
	google.golang.org/grpc v1.83.1
	google.golang.org/protobuf v1.36.12
	k8s.io/kubelet v0.36.3
)

require (
	golang.org/x/net v0.55.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)
