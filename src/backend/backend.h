// The contract of a backend: it owns its copy or its view of the weights and the KV storage, and runs steps. Each owns its
// whole forward pass; what a step means is given by reference/.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu_tuning.h"
#include "backend/timed_work.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble {

// What the experts' MXFP4 weights are multiplied with: kDefault is the backend's choice, which kernels() tells.
enum class ExpertActivations { kDefault, kFloat, kInt8 };

struct BackendOptions {
  int num_full_pages{0}, num_sliding_pages{0};  // of the KV cache; page ids are below these
  int max_batch_tokens{512};                    // the most rows of one step
  int num_threads{0};                           // 0: all cores the process may use
  std::string isa{};                            // CPU: "portable", "avx2", ...; empty: the best there is
  DenseFormats dense{};                         // quantised at load where it says so
  // Of keys and values: kBf16, or kE4m3 of the float32, to nearest even, saturating at 448, with the scale 1.
  Format kv_format{Format::kBf16};
  ExpertActivations expert_activations{ExpertActivations::kDefault};  // CPU
  CpuTuning tuning{};                                                 // CPU
};

// Bytes a backend takes for itself before it starts: beside the mapped weights, of which it reads replaced_weight_bytes
// when it starts and never again. Of these, released_weight_bytes are given back even where they are made weights.
struct MemoryPlan {
  size_t weight_bytes{0}, replaced_weight_bytes{0}, released_weight_bytes{0}, kv_bytes{0}, workspace_bytes{0};
};

inline constexpr int kAnyRows{std::numeric_limits<int>::max()};

// One row of `inspect --kernels`: what runs an operation, and why that. Formats by their names (model/weights.h): of the weights,
// or of the KV cache in "append" and "attend"; and of the activations that are multiplied with them.
struct KernelChoice {
  std::string operation, weights, activations, kernel, reason;
  int from_rows{1}, to_rows{kAnyRows};  // of a step
  bool operator==(const KernelChoice&) const = default;
};

// What a backend counted since it was made.
struct Counter {
  std::string name;
  size_t value{0};
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual const Config& config() const = 0;
  virtual std::vector<KernelChoice> kernels() const = 0;
  virtual std::vector<Counter> counters() const { return {}; }
  // Runs the model over the batch, writes K and V of every row, answers the output rows. The caller guarantees that page
  // tables cover the positions, that no page is shared by two runs that write it, and at most max_batch_tokens rows;
  // breaking that is a bug. A token gets the same bits alone and in any batch.
  virtual StepResult step(const Batch& batch) = 0;
  // The same, and all that it did, in order. Empty: this backend does not say.
  virtual std::vector<TimedWork> profile(const Batch&) { return {}; }
};

}  // namespace nibble
