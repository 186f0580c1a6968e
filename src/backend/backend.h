// The contract of a backend: it owns its copy or its view of the weights and the storage of the KV cache, and runs steps. Each
// backend has a forward pass of its own; reference/ defines what a step computes.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/rank_links.h"
#include "backend/timed_work.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/draft_head/draft_head.h"
#include "model/operation.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble {

// The options of every backend. A backend's own ones are in a struct beside it (backend/cpu/cpu_options.h).
struct BackendOptions {
  // More than 1 where ranks have sequences of their own: a run has all its pages in one of the caches. Cache c has the pages from
  // c num_full_pages on, and from c num_sliding_pages on.
  int num_kv_caches{1};
  int num_full_pages{0}, num_sliding_pages{0};  // of each KV cache
  int max_batch_tokens{512};                    // the largest number of rows in a step
  int num_threads{0};                           // 0: all cores that the process may use
  DenseFormats dense{};                         // quantises these matrices when weights are loaded
  // The format of keys and values: kBf16, or kE4m3, to which float32 is rounded to nearest even, saturating at 448, without a scale.
  Format kv_format{Format::kBf16};
  // Drafts what the runs of a step ask for (Run::num_to_draft). Null: none does.
  std::shared_ptr<const DraftHead> draft_head{};
  Format draft_head_format{
      Format::kMxfp4};  // of its matrices, or kBf16: as the file has them, which is what the reference takes
  // The weights are those of a rank (model/shares/share_weights.h), whose process runs the same steps as the others. Null: they are the whole.
  std::shared_ptr<RankLinks> links{};
  // A device that does not end a step within this time is taken for lost (BackendLost).
  double step_patience_seconds{120};
};

// Bytes that a backend takes before it starts, beside the mapped weights. It reads replaced_weight_bytes of those when it starts and
// never again; released_weight_bytes of these are freed even if the weights are not mapped.
struct MemoryPlan {
  size_t weight_bytes{0}, replaced_weight_bytes{0}, released_weight_bytes{0}, kv_bytes{0}, workspace_bytes{0};
};

inline constexpr int kAnyRows{std::numeric_limits<int>::max()};

// One row of `inspect --kernels`: the kernel that runs an operation, and why. Formats are given by name (model/weights.h): that of the
// weights, or of the KV cache in kAppend and kAttend, and that of the activations they are multiplied by.
struct KernelChoice {
  Operation operation;
  std::string weights, activations, kernel, reason;
  int from_rows{1}, to_rows{kAnyRows};  // in a step
  std::string check{};  // what checks it in `nibble verify` (KernelCheck::name); empty: nothing
  bool operator==(const KernelChoice&) const = default;
};

// One line of what decides how a step runs: "norm before attention", "computed by qkv".
struct StepFact {
  std::string name, value;
};

// The kernels that a device would run, which need not be here.
struct RemoteKernels {
  std::string device;   // what it is, in a line
  std::string refusal;  // why nibble does not run the model there; empty where it does
  std::vector<KernelChoice> kernels;
  std::function<std::vector<StepFact>(int num_rows)>
      step{};  // of a step of so many rows; empty: all steps run alike
};

// A count of steps since the backend was made, by how it launched them.
struct Counter {
  std::string_view name;   // for people: "steps of a recorded graph"
  std::string_view label;  // of metrics: "graph_replayed"
  size_t value{0};
};

// Thrown by a step after which this backend can't run another one, in this process: the device is lost, or hangs.
class BackendLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual const Config& config() const = 0;
  virtual std::vector<KernelChoice> kernels() const = 0;
  // Empty: this backend has one way to launch a step. Called by the thread that launches steps.
  virtual std::vector<Counter> counters() const { return {}; }
  // Runs the model over the batch: writes K and V of every row, returns results for the output rows. The caller
  // guarantees that page tables cover the positions, that no two runs write the same page, and that there are at most
  // max_batch_tokens rows. A token gets the same bits alone and in any batch.
  virtual StepResult step(const Batch& batch) = 0;
  // True: the drafts of a run may be a tree (Run::parents). Else they are a chain.
  virtual bool takes_trees() const { return false; }
  // False: where drafts are taken by their cost they are chains all the same, and only who asks for trees has them.
  virtual bool tries_trees() const { return takes_trees(); }
  // The number of steps that can be launched while another is under way: 0 where launch() runs the whole step.
  virtual int steps_ahead() const { return 0; }
  // step() in two halves. launch() begins a step, and needs the batch no more when it returns; if it throws, nothing was begun. wait()
  // gives the result of the oldest step that was launched; if it throws, that step could not be run, and a later one can be waited for
  // all the same. Steps run one after the other: each finds what the one before it wrote.
  virtual void launch(const Batch& batch) { launched_ = step(batch); }
  virtual StepResult wait() { return std::move(launched_); }
  // Runs the same step and returns what it did, in order. Empty: this backend does not record it.
  virtual std::vector<TimedWork> profile(const Batch&) { return {}; }

 private:
  StepResult launched_;
};

}  // namespace nibble
