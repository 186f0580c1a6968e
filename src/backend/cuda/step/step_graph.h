// Steps that decode, or check drafts, launch the same kernels again and again: as one CUDA graph they cost the host a single call.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// A graph that is ready to run.
class StepGraph {
 public:
  // Records what `enqueue` puts into the stream.
  StepGraph(const OwnedStream& stream, const std::function<void()>& enqueue);
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;
  ~StepGraph() { cudaGraphExecDestroy(executable_); }
  void launch(const OwnedStream& stream) const;

 private:
  cudaGraphExec_t executable_{nullptr};
};

// The graphs of all steps so far, by the shapes that the ranks of the GPU have of a step.
class StepGraphs {
 public:
  using Key = std::vector<StepShape>;
  // `are_on`: no step is recorded where they are not (--no-graphs).
  explicit StepGraphs(bool are_on) : are_on_(are_on) {}
  bool are_on() const { return are_on_; }
  // Records the graph of such a step, if there is none: where several GPUs wait for each other's launches, all are ready before the first.
  void prepare(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue);
  // Launches the graph of such a step, which is recorded the first time. Where graphs are off, enqueues the step.
  void launch(const Key& shapes, const OwnedStream& stream, const std::function<void()>& enqueue);
  void count_step_without() { ++num_without_; }
  std::vector<Counter> counters() const;

 private:
  struct Entry {
    Entry(const OwnedStream& stream, const std::function<void()>& enqueue) : graph(stream, enqueue) {}
    StepGraph graph;
    bool was_launched{false};
  };

  bool are_on_;
  std::map<Key, Entry> graphs_;
  size_t num_hits_{0}, num_misses_{0}, num_without_{0};
};

}  // namespace nibble::cuda
