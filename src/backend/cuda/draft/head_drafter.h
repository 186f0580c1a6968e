// Runs a draft head after each step of the model. See reference/draft_head.h for the formulas,
// backend/draft_chain.h for the slots and chains of a step, and input/draft_slots.h for how the device finds
// where drafts begin.
//
// The head's kernels follow the step's kernels in the same stream or graph, without waiting for the host: the
// tokens that the step chose, and the drafts, stay on the device until the results are copied. The head uses
// the product kernels of the model: for up to 16 rows, the kernels that stream the weights (dense/stream.cu);
// for more rows, on every chip, the kernels by mma.sync (dense/mma.cu). K and V are BF16, in the head's own
// pages.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/args.h"
#include "backend/cuda/draft/head_rows.h"
#include "backend/cuda/draft/head_weights.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/step/step_input.h"

namespace nibble::cuda {

// The head's arrays, for steps of T rows and for N chains. Rows are computed in slices of S rows.
struct HeadWorkspace {
  __nv_bfloat16* taps{nullptr};   // [T, 3, H]: the residual stream after three layers
  DraftSlot* slots{nullptr};      // [T]: for each row, the next token and the chain that begins after it
  int32_t* kv_slots{nullptr};     // [T], for trees: slot of each row's K and V in the head's cache
  RowInput* chain_rows{nullptr};  // [drafts, N]: position and pages of each draft's row
  // For a slice of S rows: the features (f in reference/draft_head.h), the sums of keys and values, and the
  // layer's input. Each feature and each sum is stored in one or two parts.
  float *features{nullptr}, *kv_parts{nullptr};
  __nv_bfloat16* input{nullptr};
  // For N chains: the layer's input, and the results of the operations that follow.
  __nv_bfloat16 *chain_input{nullptr}, *attended{nullptr}, *normed{nullptr}, *gated{nullptr};
  float *residual{nullptr}, *qkv_parts{nullptr}, *project_parts{nullptr}, *gate_parts{nullptr},
      *out_parts{nullptr}, *logits{nullptr};
  unsigned* attend_tickets{nullptr};  // AttendArgs::tickets; zero between launches
  // `starts` [N] and `results` [drafts, N] are contiguous, so that one copy brings both to the host. The next
  // step reads both arrays on the device.
  ChainStart* starts{nullptr};
  SampleResult* results{nullptr};
  // The arrays from here on are constant. sample_rows [2 N]: the first N rows request the likeliest token
  // and its log-probability; the other N also request the kMaxTop likeliest tokens, for trees.
  SampleRow* sample_rows{nullptr};
  int* row_numbers{nullptr};  // [N]: 0, 1, ..., N - 1
  float *sinks{nullptr}, *rope_frequencies{nullptr};
};

struct DraftDownload {
  PinnedBuffer bytes;
  struct Request {
    size_t run;
    int num_drafts, topk;
  };
  std::vector<Request> requests;  // [chains]: the run of each chain, and what that run requested
  size_t num_runs{0};
};

class HeadDrafter {
 public:
  // Throws InputError if the head cannot run on this GPU. `device` must outlive the drafter.
  HeadDrafter(const Weights& model, const DeviceWeights& device, const BackendOptions& options,
              const Target& target, Stream stream);

  // Stores the residual stream `x` after a layer, if the head reads it (a tap). Call keep() after each layer
  // of a step.
  void keep(Stream stream, size_t layer, int num_rows, const ResidualInput& x) const;
  // Fills the head's KV cache, and makes drafts for runs that request drafts. Call draft() after the sampling
  // of a step.
  void draft(Stream stream, const StepShape& shape, const Workspace& work) const;
  // Returns the device arrays in which draft() stores the starts of chains and the drafts. The next step's
  // embed() reads them.
  MadeDrafts made() const { return {work_.starts, work_.results, weights_.tokens}; }
  // Enqueues the copy of the drafts to the host. read() returns the drafts; call read() after the step has
  // ended.
  void download(Stream stream, const Batch& batch, const StepShape& shape, DraftDownload& to) const;
  std::vector<Drafts> read(const DraftDownload& from) const;

  // kv_bytes() and workspace_bytes() return the device memory of the head's KV cache, and of its workspace
  // for steps of up to options.max_batch_tokens rows.
  static size_t kv_bytes(const BackendOptions& options);
  static size_t workspace_bytes(const BackendOptions& options);

 private:
  LaunchContext on(Stream stream) const {
    stream.is_draft = true;
    return {stream, target_};
  }
  struct Rows {
    Activations data;
    int num_rows, cols;
  };
  ResidualInput multiply(Stream stream, const Strips& weights, const Rows& x, float* parts,
                         ResidualInput residual = {}) const;
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
