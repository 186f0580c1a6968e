// Runs a draft head after the steps of the model that it drafts for. Its formulas are in
// reference/draft_head.h, the contract with a step in backend/draft_chain.h, and how the device finds where
// drafts begin in input/draft_slots.h.
//
// The head's kernels are launched after those of the step, in the same stream or graph, without waiting for
// the host: the tokens that the rows chose and the tokens that the head drafts stay on the device until the
// step's results are copied. The head uses the model's product kernels: up to 16 rows stream the weights as
// decode does (dense/stream.cu); for more rows, many share a pass over the weights (dense/mma.cu, by
// mma.sync on every chip). Keys and values are BF16, in the head's own pages.
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

// The head's working arrays: for S rows of a step at a time, and for N chains.
struct HeadWorkspace {
  __nv_bfloat16* taps{nullptr};   // [T, 3, H]
  DraftSlot* slots{nullptr};      // [T]
  int32_t* kv_slots{nullptr};     // [T], for steps with trees
  RowInput* chain_rows{nullptr};  // [drafts, N]
  // For S rows: f in one or two partial sums, the layer's input, its keys and values.
  float *features{nullptr}, *kv_parts{nullptr};
  __nv_bfloat16* input{nullptr};
  // For N chains: the layer's input, and the activations of the operations after it.
  __nv_bfloat16 *chain_input{nullptr}, *attended{nullptr}, *normed{nullptr}, *gated{nullptr};
  float *residual{nullptr}, *qkv_parts{nullptr}, *project_parts{nullptr}, *gate_parts{nullptr},
      *out_parts{nullptr}, *logits{nullptr};
  unsigned* attend_tickets{nullptr};  // zero before and after every launch
  // Contiguous, because one copy brings both to the host; the next step reads them too: starts [N], then
  // results [drafts, N].
  ChainStart* starts{nullptr};
  SampleResult* results{nullptr};
  // Constant from here on.
  // [2 N]: N rows that request the likeliest token and its log-probability, then N that also request the
  // kMaxTop likeliest.
  SampleRow* sample_rows{nullptr};
  int* row_numbers{nullptr};  // [N]: 0, 1, ...
  float *sinks{nullptr}, *rope_frequencies{nullptr};
};

// The drafts of a step in transfer to the host.
struct DraftDownload {
  PinnedBuffer bytes;
  struct Request {
    size_t run;
    int num_drafts, topk;
  };
  std::vector<Request> requests;  // per chain
  size_t num_runs{0};
};

class HeadDrafter {
 public:
  // Throws InputError if the head cannot run here. `device` must outlive this object.
  HeadDrafter(const Weights& model, const DeviceWeights& device, const BackendOptions& options,
              const Target& target, Stream stream);

  // Called after each layer: stores the residual stream if the head reads it after this layer.
  void keep(Stream stream, size_t layer, int num_rows, const ResidualInput& x) const;
  // Called after the sampling of a step: fills the head's KV cache for the step's rows, and drafts for the
  // runs that request drafts.
  void draft(Stream stream, const StepShape& shape, const Workspace& work) const;
  // Returns the chains and drafts that draft() leaves on the device for the next step's embed.
  MadeDrafts made() const { return {work_.starts, work_.results, weights_.tokens}; }
  // Enqueues the copy of the drafts to the host; read() may be called after the step has ended.
  void download(Stream stream, const Batch& batch, const StepShape& shape, DraftDownload& to) const;
  std::vector<Drafts> read(const DraftDownload& from) const;

  // Return the device bytes of the head's KV cache, and of its workspace for steps of up to
  // options.max_batch_tokens rows.
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
