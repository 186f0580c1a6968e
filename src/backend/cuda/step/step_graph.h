// CUDA graphs of steps that decode or verify drafts: one call launches all kernels of a step.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/step/step_input.h"
#include "core/memory/recent_map.h"

namespace nibble::cuda {

class StepGraph {
 public:
  StepGraph(const OwnedStream& stream, const std::function<void()>& enqueue);
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;
  ~StepGraph() { cudaGraphExecDestroy(executable_); }
  void launch(const OwnedStream& stream) const;

 private:
  LaunchCounts launches_;  // launches of one replay of the graph
  cudaGraphExec_t executable_{nullptr};
};

// Keeps the graphs of the latest step shapes. A graph's key holds the step's shape on each rank of the GPU.
// The least recently used graph is dropped first. That graph is not running, because at most two steps are in
// flight.
class StepGraphs {
 public:
  using Key = std::vector<StepShape>;
  // `are_on`: if false (--no-graphs), launch() never uses a graph.
  explicit StepGraphs(bool are_on) : are_on_(are_on) {}
  bool are_on() const { return are_on_; }
  // Captures the graph for these shapes, unless it exists or graphs are off. If kernels wait for kernels of
  // other GPUs, call prepare() for all GPUs before the step's first launch: a capture may wait for running
  // kernels, and these must not be waiting for a launch that comes after the capture.
  void prepare(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue) {
    if (are_on_) captured(shapes, stream, enqueue);
  }
  // Launches the graph for these shapes; captures it if it is missing. If graphs are off, enqueues the step.
  void launch(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue);
  void count_step_without() { ++num_without_; }
  std::vector<Counter> counters() const;

 private:
  // Largest number of graphs to keep. A server under mixed load has thousands of shapes (rows, depths,
  // sampling).
  static constexpr size_t kMaxGraphs{256};

  struct Entry {
    Entry(const OwnedStream& stream, const std::function<void()>& enqueue) : graph(stream, enqueue) {}
    StepGraph graph;
    bool was_launched{false};
  };
  Entry& captured(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue);

  bool are_on_;
  RecentMap<Key, Entry> graphs_{kMaxGraphs};
  size_t num_hits_{0}, num_misses_{0}, num_without_{0};
};

}  // namespace nibble::cuda
