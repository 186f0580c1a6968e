// Runs a draft head after the steps of its model. reference/draft_head.h has the formulas;
// backend/draft_chain.h describes its rows and pages. Keys and values are BF16.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/batch_row.h"
#include "backend/cpu/draft/head_matrix.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "backend/draft_chain.h"
#include "core/tensors/view.h"
#include "model/batch.h"
#include "model/draft_head/draft_head.h"

namespace nibble::cpu {

class HeadDrafter {
 public:
  // If the head's file lacks the embedding or unembedding, uses those of `model`, which must outlive this
  // object. Throws InputError if the model has freed them. `int8`: whether MXFP4 matrices take int8
  // activations.
  HeadDrafter(const BackendOptions& options, const Weights& model, const Machine& machine, bool int8);

  // start() prepares a step of num_rows rows. keep() stores `x`, the output of `layer`, if the head reads it.
  void start(ptrdiff_t num_rows);
  void keep(int layer, View<const float, 2> x);
  // Called after a step. Fills the head's KV cache for the rows of `batch`, then makes the drafts that the
  // runs of `batch` request.
  std::vector<Drafts> draft(const Batch& batch, std::span<const SampledToken> outputs);

  // Memory of the head in three parts: matrices, KV cache, activations of a step of up to max_rows rows.
  static size_t weight_bytes(const DraftHeadConfig& head, Format format);
  static size_t kv_bytes(const DraftHeadConfig& head, int num_pages);
  static size_t workspace_bytes(const DraftHeadConfig& head, int max_rows);

 private:
  struct Rows {
    std::vector<float> elements;
    View<float, 2> view{};
    void resize(ptrdiff_t num_rows, ptrdiff_t width);
  };
  // Chains that are not complete yet, in the order of their rows in out_.
  struct Chains {
    std::vector<size_t> indices;  // index of each chain in DraftSlots::chains
    std::vector<BatchRow> rows;   // input row of each chain for its next draft
    std::vector<int> outputs;     // 0, 1, 2, ...: all of `rows` need outputs
  };
  // One Run per chain; only its page table is used. `pages` holds the tables' storage.
  struct ChainRuns {
    std::vector<std::vector<PageId>> pages;
    std::vector<Run> runs;
  };
  std::vector<BatchRow> fuse_features(const Batch& batch, const DraftSlots& slots);
  ChainRuns runs_of_chains(const Batch& batch, const DraftSlots& slots) const;
  void compute_logits(ptrdiff_t num_rows);
  void embed_and_norm(View<const float, 2> features, std::span<const BatchRow> rows);
  Rows residuals_of(View<const float, 2> features, std::span<const int> outputs);
  void attend_outputs(std::span<const BatchRow> rows, std::span<const int> outputs);
  void add_mlp(Rows& residuals);
  void add_product(const HeadMatrix& matrix, View<const float, 2> x, Rows& to);
  void run_layer(View<const float, 2> features, std::span<const BatchRow> rows, std::span<const int> outputs);
  void append(std::span<const BatchRow> rows);
  void attend_to_slots(std::span<const BatchRow> rows);

  DraftHead head_;
  const Machine& machine_;
  int num_pages_;
  RopeFrequencies rope_;
  std::vector<float> no_sinks_;
  HeadMatrix fc_, q_, k_, v_, o_, gate_, up_, down_, unembedding_;
  KvCache kv_;
  // taps_ to sines_ have one row per row of the step; while chains are extended, they have one row per chain.
  // The other members have one row for each row whose logits are computed.
  Rows taps_, features_, embedded_, input_, keys_, values_, cosines_, sines_;
  Rows own_input_, queries_, split_queries_, parts_, attended_, projected_, normed_, gate_out_, up_out_,
      gated_, logits_;
  Rows out_;  // the head's output g (reference/draft_head.h)
};

}  // namespace nibble::cpu
