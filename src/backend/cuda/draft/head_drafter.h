// Runs a draft head behind the steps of the model that it drafts for. reference/draft_head.h has its formulas, backend/draft_chain.h what
// a step asks of it, and draft/slots.h how the device finds where drafts begin.
//
// Everything is launched behind the step, in its stream or its graph, and nothing waits for the host: the tokens that the rows chose, and
// those that the head drafts, stay on the device until the step's results are copied. The head's products are those of the model: up to 16
// rows stream the weights as decoding does (decode/dense.cu), more share a pass (prompt/dense.cu, by mma.sync on every chip).
// Keys and values are BF16, in pages of the head's own.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/draft/head_rows.h"
#include "backend/cuda/draft/head_weights.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// The arrays that a head works in: for S rows of a step at a time, and for N chains.
struct HeadWorkspace {
  __nv_bfloat16* taps{nullptr};   // [T, 3, H]
  DraftSlot* slots{nullptr};      // [T]
  int32_t* kv_slots{nullptr};     // [T], for steps with trees
  RowInput* chain_rows{nullptr};  // [drafts, N]
  // For S rows: f in one or two parts, the layer's input, keys and values.
  float *features{nullptr}, *kv_parts{nullptr};
  __nv_bfloat16* input{nullptr};
  // For N: the same, and what follows.
  __nv_bfloat16 *chain_input{nullptr}, *attended{nullptr}, *normed{nullptr}, *gated{nullptr};
  float *residual{nullptr}, *qkv_parts{nullptr}, *project_parts{nullptr}, *gate_parts{nullptr},
      *out_parts{nullptr}, *logits{nullptr};
  unsigned* attend_tickets{nullptr};  // zero before and after every launch
  // These go to the host in one copy, and stay for the next step: starts [N], then results [drafts, N].
  ChainStart* starts{nullptr};
  SampleResult* results{nullptr};
  // Constant.
  // [N]: the likeliest token, and its log-probability; then [N]: the same, and the kMaxTop likeliest.
  SampleRow* sample_rows{nullptr};
  int* row_numbers{nullptr};  // [N]: 0, 1, ...
  float *sinks{nullptr}, *rope_frequencies{nullptr};
};

// The drafts of a step on their way to the host.
struct DraftDownload {
  PinnedBuffer bytes;
  struct Asked {
    size_t run;
    int num_drafts, topk;
  };
  std::vector<Asked> asked;  // of each chain
  size_t num_runs{0};
};

class HeadDrafter {
 public:
  // Throws InputError where the head does not run here. `device` must outlive this.
  HeadDrafter(const Weights& model, const DeviceWeights& device, const BackendOptions& options,
              const Target& target, Stream stream);

  // Behind a layer: keeps the residual stream if the head reads it.
  void keep(Stream stream, size_t layer, int num_rows, const ResidualInput& x) const;
  // Behind the sampling of a step: fills the head's cache for its rows, and drafts what its runs ask for.
  void draft(Stream stream, const StepShape& shape, const Workspace& work) const;
  // The chains and drafts that draft() leaves on the device for the next step's embed.
  MadeDrafts made() const { return {work_.starts, work_.results, weights_.tokens}; }
  // Enqueues the copy of the drafts; read() may be called when the step has ended.
  void download(Stream stream, const Batch& batch, const StepShape& shape, DraftDownload& to) const;
  std::vector<Drafts> read(const DraftDownload& from) const;

  // Bytes of the device that the cache takes, and a step of up to options.max_batch_tokens rows.
  static size_t kv_bytes(const BackendOptions& options);
  static size_t workspace_bytes(const BackendOptions& options);

 private:
  LaunchContext on(Stream stream) const {
    stream.is_draft = true;
    return {stream, target_};
  }
  ResidualInput multiply(Stream stream, const Activations& x, int cols, const Strips& weights, int num_rows,
                         float* parts, ResidualInput residual = {}) const;
  ResidualInput norm_and_multiply(Stream stream, const NormInput& norm, const Strips& weights, int num_rows,
                                  float* parts) const;
  DraftInputArgs input_args() const;
  void fill_slots(Stream stream, const StepShape& shape, const InputParts& in, int first, int num_rows) const;
  void attend(Stream stream, const StepShape& shape, const Workspace& work, AttendArgs args) const;
  ResidualInput run_layer(Stream stream, const StepShape& shape, const Workspace& work, int draft) const;
  void choose(Stream stream, const StepShape& shape, const Workspace& work, const ResidualInput& out,
              int draft) const;

  std::shared_ptr<const DraftHead> head_;
  Target target_;
  HeadWeights weights_;
  KvStorage kv_;
  HeadWorkspace work_;
  DeviceBuffer bytes_;
};

}  // namespace nibble::cuda
