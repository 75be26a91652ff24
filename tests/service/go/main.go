// A client in Go of the messages and stubs that protoc makes of our .proto: what it saw, a JSON object a line.
//
// usage: client TARGET SUBMIT.BIN CANCEL.BIN, requests in protobuf
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "cuzk.test/client/cuzkv1"
)

func say(step string, fields map[string]any) {
	fields["step"] = step
	line, _ := json.Marshal(fields)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) *pb.SubmitProofRequest {
	data, err := os.ReadFile(path)
	must(err)
	request := &pb.SubmitProofRequest{}
	must(proto.Unmarshal(data, request))
	return request
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20), grpc.MaxCallSendMsgSize(256<<20)))
	must(err)
	defer connection.Close()
	client := pb.NewProvingEngineClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	submitted, err := client.SubmitProof(metadata.AppendToOutgoingContext(ctx, "cuzk-deadline", "1h"), read(os.Args[2]))
	must(err)
	say("submit", map[string]any{"job": submitted.JobId, "position": submitted.QueuePosition})
	early, err := client.AwaitProof(ctx, &pb.AwaitProofRequest{JobId: submitted.JobId, TimeoutMs: 50})
	must(err)
	say("timeout", map[string]any{"status": early.Status.String()})
	say("go", map[string]any{}) // from here on the prover proves
	done, err := client.AwaitProof(ctx, &pb.AwaitProofRequest{JobId: submitted.JobId})
	must(err)
	say("await", map[string]any{"status": done.Status.String(), "bytes": len(done.Proof), "total_ms": done.TotalMs})
	proved, err := client.Prove(ctx, &pb.ProveRequest{Submit: read(os.Args[2])})
	must(err)
	say("prove", map[string]any{"same": proto.Equal(proved.Result, done)})

	other, err := client.SubmitProof(ctx, read(os.Args[3]))
	must(err)
	cancelled, err := client.CancelProof(ctx, &pb.CancelProofRequest{JobId: other.JobId})
	must(err)
	ended, err := client.AwaitProof(ctx, &pb.AwaitProofRequest{JobId: other.JobId})
	must(err)
	say("cancel", map[string]any{"was_running": cancelled.WasRunning, "status": ended.Status.String()})

	state, err := client.GetStatus(ctx, &pb.GetStatusRequest{})
	must(err)
	say("status", map[string]any{"gpus": len(state.Gpus), "queues": len(state.Queues), "completed": state.TotalProofsCompleted})
	metrics, err := client.GetMetrics(ctx, &pb.GetMetricsRequest{})
	must(err)
	say("metrics", map[string]any{"text": metrics.PrometheusText})
	loaded, err := client.PreloadSRS(ctx, &pb.PreloadSrsRequest{CircuitId: "wpost-2k"})
	must(err)
	say("preload", map[string]any{"already": loaded.AlreadyLoaded})
	dropped, err := client.EvictSRS(ctx, &pb.EvictSrsRequest{CircuitId: "wpost-2k"})
	must(err)
	say("evict", map[string]any{"was_loaded": dropped.WasLoaded, "freed": dropped.FreedBytes})
	_, err = client.PreloadSRS(ctx, &pb.PreloadSrsRequest{CircuitId: "porep-33g"})
	say("unknown", map[string]any{"code": status.Code(err).String(), "text": status.Convert(err).Message()})
	large := read(os.Args[2])
	large.VanillaProofs = [][]byte{make([]byte, 129<<20)}
	_, err = client.SubmitProof(ctx, large)
	say("large", map[string]any{"code": status.Code(err).String()})
}
