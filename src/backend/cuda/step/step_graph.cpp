#include "backend/cuda/step/step_graph.h"

#include "backend/cuda/attention/args.h"
#include "core/program/log.h"

namespace nibble::cuda {

StepGraph::StepGraph(const OwnedStream& stream, const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step");
  const LaunchCounts before = stream.counts();
  enqueue();
  launches_ = stream.counts().since(before);
  stream.counts() = before;  // restores the counts: the captured launches have not run yet
  check(cudaStreamEndCapture(stream, &graph), "capturing a step");
  const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "instantiating a graph");
}

void StepGraph::launch(const OwnedStream& stream) const {
  check(cudaGraphLaunch(executable_, stream), "launching a step");
  stream.counts().add(launches_);
}

StepGraphs::Entry& StepGraphs::captured(const Key& shapes, const OwnedStream& stream,
                                        const std::function<void()>& enqueue) {
  const auto [entry, is_new] = graphs_.get(shapes, stream, enqueue);
  if (is_new)
    log::info("captured a graph for {} rows of up to {} positions; {} graphs", shapes.front().num_tokens,
              shapes.front().full_chunks * kChunkPages * kPagePositions, graphs_.size());
  return entry;
}

void StepGraphs::launch(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue) {
  if (!are_on_) {
    count_step_without();
    return enqueue();
  }
  Entry& entry = captured(shapes, stream, enqueue);
  ++(std::exchange(entry.was_launched, true) ? num_hits_ : num_misses_);
  entry.graph.launch(stream);
}

std::vector<Counter> StepGraphs::counters() const {
  return {{"steps that replayed a graph", "graph_replayed", num_hits_},
          {"steps that captured a graph", "graph_recorded", num_misses_},
          {"steps without a graph", "no_graph", num_without_}};
}

}  // namespace nibble::cuda
