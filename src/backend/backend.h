// The contract of a backend: it owns its copy or view of the weights and the KV cache, and runs steps. Each
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

// The options that all backends share. Options of one backend are in a struct of its own
// (backend/cpu/cpu_options.h).
struct BackendOptions {
  // More than 1 if ranks have sequences of their own: each run has all its pages in one of the caches. Page
  // ids of cache c start at c * num_pages.
  int num_kv_caches{1};
  int num_pages{0};           // of each KV cache, for both kinds of layer
  int max_batch_tokens{512};  // the largest number of rows in a step
  int num_threads{0};         // 0: all cores that the process may use
  DenseFormats dense{};       // formats to which these matrices are quantised at load
  // The format of keys and values: kBf16 or kE4m3. For kE4m3, float32 is rounded to nearest even and
  // saturates at 448; there is no scale.
  Format kv_format{Format::kBf16};
  // The draft head that makes the drafts requested by the runs of a step (Run::draft_request). Null: no
  // drafts.
  std::shared_ptr<const DraftHead> draft_head{};
  // The format of the draft head's matrices. kBf16 keeps them as in the file, which is what the reference
  // uses.
  Format draft_head_format{Format::kMxfp4};
  // Links to the other ranks, if the weights are the share of one rank (model/shares/share_weights.h). The
  // process of each rank runs the same steps. Null: the weights are the whole model.
  std::shared_ptr<RankLinks> links{};
  // A device that does not finish a step within this time is considered lost (BackendLost).
  double step_patience_seconds{120};
};

// The memory that a backend will allocate, in bytes, besides the mapped weights. At start the backend reads
// replaced_weight_bytes of the mapped weights and never needs them again; released_weight_bytes of these are
// freed even if the weights are not mapped.
struct MemoryPlan {
  size_t weight_bytes{0}, replaced_weight_bytes{0}, released_weight_bytes{0}, kv_bytes{0}, workspace_bytes{0};
};

inline constexpr int kAnyRows{std::numeric_limits<int>::max()};

// One row of `inspect --kernels`: the kernel that runs an operation, and the reason. Formats are names
// (model/weights.h): the format of the weights (of the KV cache for kAppend and kAttend), and that of the
// activations multiplied by them.
struct KernelChoice {
  Operation operation;
  std::string weights, activations, kernel, reason;
  int from_rows{1}, to_rows{kAnyRows};  // rows in a step
  std::string check{};                  // name of its KernelCheck in `nibble verify`; empty: none
  bool operator==(const KernelChoice&) const = default;
};

// One fact about how a step runs, as a name and a value: "norm before attention", "computed by qkv".
struct StepFact {
  std::string name, value;
};

// The kernels for a device that need not be present in this machine.
struct RemoteKernels {
  std::string device;   // one line
  std::string refusal;  // why nibble does not run the model on that device; empty if it does
  std::vector<KernelChoice> kernels;
  // How a step of `num_rows` rows runs. Null: the same for all steps.
  std::function<std::vector<StepFact>(int num_rows)> step{};
};

// The number of steps launched in one way since the backend was created.
struct Counter {
  std::string_view name;   // for people: "steps of a recorded graph"
  std::string_view label;  // label in metrics: "graph_replayed"
  size_t value{0};
};

// Thrown if the backend can run no further step in this process: the device is lost or hangs.
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
  // Returns how many steps were launched in each way; empty if the backend has only one way. Called by the
  // thread that launches steps.
  virtual std::vector<Counter> counters() const { return {}; }
  // Runs the model over the batch: writes K and V of every row and returns results for the output rows. The
  // caller guarantees that the page tables cover the positions, that no two runs write the same page, and
  // that there are at most max_batch_tokens rows. A token gets the same bits alone and in any batch.
  virtual StepResult step(const Batch& batch) = 0;
  // True: the drafts of a run may form a tree (DraftedTokens::parents). False: only a chain.
  virtual bool takes_trees() const { return false; }
  // False: with speculation by cost, drafts are chains even if the backend takes trees; trees must be
  // requested explicitly.
  virtual bool tries_trees() const { return takes_trees(); }
  // The number of steps that can be launched while another is under way. 0: launch() runs the whole step.
  virtual int steps_ahead() const { return 0; }
  // step() in two halves. launch() begins a step and no longer needs the batch when it returns; if it throws,
  // no step was begun. wait() returns the result of the oldest launched step; if it throws, that step failed,
  // and later ones can still be waited for. Steps run one after another: each sees what the previous one
  // wrote.
  virtual void launch(const Batch& batch) { launched_ = step(batch); }
  virtual StepResult wait() { return std::move(launched_); }
  // Runs a step like step(), but returns its launches or loops in order. Empty: the backend does not record
  // them.
  virtual std::vector<TimedWork> profile(const Batch&) { return {}; }

 private:
  StepResult launched_;
};

}  // namespace nibble
