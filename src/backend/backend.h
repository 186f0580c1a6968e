// A backend owns its weights and KV cache, and runs steps. src/reference defines what a step computes.
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

#include "backend/kernel_launches.h"
#include "backend/rank_links.h"
#include "backend/timed_work.h"
#include "backend/traced_result.h"
#include "core/console/progress.h"
#include "model/adapter/request_adapter.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/draft_head/draft_head.h"
#include "model/operation.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble {

// Options of all backends. Options of a single backend have their own file, such as
// backend/cpu/cpu_options.h.
struct BackendOptions {
  // Number of KV caches: more than 1 if each rank has its own sequences and cache. All pages of a run are in
  // one cache. Page ids of cache c start at c * num_pages.
  int num_kv_caches{1};
  int num_pages{0};  // number of pages of each KV cache, for full and sliding layers together
  // Maximum number of entries in the page tables of a step's runs; at least num_pages. The number can be
  // larger, because a page has an entry for each sequence that shares the page.
  int max_table_pages{0};
  int max_batch_tokens{512};  // the largest number of rows in a step
  int num_threads{0};         // 0: all cores that the process may use
  DenseFormats dense{};       // formats to which dense matrices are quantised at load
  // Format of the experts; if layers have different formats, the largest of these. Only memory plans read it.
  Format experts{Format::kMxfp4};
  // Format of K and V: kBf16 or kE4m3 (float32 rounded to nearest even, saturated at 448, without a scale).
  Format kv_format{Format::kBf16};
  // The head that makes the drafts requested by runs (Run::draft_request). Null: no drafts.
  std::shared_ptr<const DraftHead> draft_head{};
  // Format of the draft head's matrices. kBf16 keeps the values of the file, like the reference.
  Format draft_head_format{Format::kMxfp4};
  // LoRA adapters that runs can use (Run::adapter). Null: none. Not with `links`, nor on several GPUs.
  std::shared_ptr<const RequestAdapters> adapters{};
  // Links to the other ranks, if the backend has one rank's share of the weights
  // (model/shares/share_weights.h). Each rank's process then runs the same steps. Null: no other ranks.
  std::shared_ptr<RankLinks> links{};
  // Receives the progress at load: bytes of weights uploaded to a device, or layers packed for a CPU. If not
  // set, progress is not reported.
  ReportProgress report_upload{};
  // A device that does not finish a step within this time is considered lost (BackendLost).
  double step_patience_seconds{120};
};

// Bytes that a backend allocates in addition to mapped weights. replaced_weight_bytes: weights, mapped or
// not, that the backend no longer reads after loading. released_weight_bytes: replaced weights that it frees.
struct MemoryPlan {
  size_t weight_bytes{0}, replaced_weight_bytes{0}, released_weight_bytes{0}, kv_bytes{0}, workspace_bytes{0};
};

inline constexpr int kAnyRows{std::numeric_limits<int>::max()};

// One row of `inspect --kernels`. `weights`: format of the weights, or of the KV cache for kAppend and
// kAttend. `activations`: format of the activations that are multiplied with `weights`.
struct KernelChoice {
  Operation operation;
  std::string weights, activations, kernel, reason;
  int from_rows{1}, to_rows{kAnyRows};  // numbers of rows in a step
  std::string check{};                  // the kernel's KernelCheck in `nibble verify`; empty: none
  bool operator==(const KernelChoice&) const = default;
};

// A fact about the execution of a step: "norm before attention", "computed by qkv".
struct StepFact {
  std::string name, value;
};

// The kernels for a device that may be absent from this machine.
struct RemoteKernels {
  std::string device;   // description in one line
  std::string refusal;  // reason why nibble does not run the model on that device; empty if it does
  std::vector<KernelChoice> kernels;
  // Returns facts about a step of `num_rows` rows. Null: all steps run in the same way.
  std::function<std::vector<StepFact>(int num_rows)> step{};
};

// Number of steps launched in one way (for example as a graph) since the backend was created.
struct Counter {
  std::string_view name;   // shown to people: "steps of a recorded graph"
  std::string_view label;  // label in metrics: "graph_replayed"
  size_t value{0};
};

// Thrown if the backend can't run another step in this process: the device is lost or hangs.
class BackendLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by a step that was given up (Batch::is_unneeded). K and V of its rows are then undefined.
class StepCut : public std::runtime_error {
 public:
  StepCut() : std::runtime_error("the step was given up: no caller needs it") {}
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual const Config& config() const = 0;
  virtual std::vector<KernelChoice> kernels() const = 0;
  // Returns, for each way to launch a step, the number of steps launched in that way; empty if only one way
  // exists. Call it in the thread that launches steps.
  virtual std::vector<Counter> counters() const { return {}; }
  // Returns how often steps launched each kernel; empty for a backend that launches none. Call it in the
  // thread that launches steps.
  virtual std::vector<KernelLaunches> launches() const { return {}; }
  // Writes K and V of every row and returns results for the output rows. The caller guarantees that page
  // tables cover the positions, that no two runs write the same page, and that the batch has at most
  // max_batch_tokens rows. A token gets the same bits alone and in any batch.
  virtual StepResult step(const Batch& batch) = 0;
  // Returns whether the drafts of a run may form a tree (DraftedTokens::parents) instead of a chain.
  virtual bool takes_trees() const { return false; }
  // Returns whether drafts form trees by default. If false, they form trees only if the user requests trees.
  virtual bool tries_trees() const { return takes_trees(); }
  // Returns the number of steps that can be launched while another one runs. 0: launch() runs the whole step.
  virtual int steps_ahead() const { return 0; }
  // The two halves of step(). launch() needs the batch only during the call; if it throws, no step has begun.
  // wait() returns the oldest step's result; if it throws, only that step has failed. Steps run in order.
  virtual void launch(const Batch& batch) { launched_ = step(batch); }
  virtual StepResult wait() { return std::move(launched_); }
  // Runs a step and returns its launches or loops in order; empty if the backend does not record them.
  virtual std::vector<TimedWork> profile(const Batch&) { return {}; }
  // Runs a step and returns the results of its operations in order; empty if the backend traces none.
  virtual std::vector<TracedResult> trace(const Batch&) { return {}; }

 private:
  StepResult launched_;
};

}  // namespace nibble
