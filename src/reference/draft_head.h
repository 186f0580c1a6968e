// The network of a draft head (model/draft_head/draft_head.h), one slot for each row: the features of position i, f_i, and the token of position
// i + 1, t, which is known by then. All norms are root-mean-square norms, and no product has a bias.
//
//   f = Wfc norm([x^a, x^b, x^c])            x^a, ...: the residual stream behind the three layers; norm only with norm_before_fc
//   h = norm(f)    z = [norm(E[t]), h]
//   q, k, v = Wq z, Wk z, Wv z               q and k rotated by i
//   r = f + Wo attention(q, k, v)            causal, over all slots, without sinks; h + ... with norm_before_residual
//   y = norm(r)    g = r + Wdown(silu(Wgate y) Wup y)
//   logits = Wu norm(g)                      of the token at i + 2
//
// A chain goes on with slot i + 1, in which g (with norm_output: norm(g)) takes the place of f, and the drafted token that of t.
#pragma once

#include <span>

#include "core/thread_pool.h"
#include "core/view.h"
#include "model/batch.h"
#include "model/draft_head/draft_head.h"
#include "reference/array.h"
#include "reference/forward.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"

namespace nibble::reference {

// f from the three outputs.
struct JoinFeaturesArgs {
  const DraftHead& head;
  View<const float, 2> taps;  // [T, 3 H]
  View<float, 2> features;    // [T, H]
  ThreadPool* pool{};
};
void join_features(const JoinFeaturesArgs& args);

struct DraftLayerArgs {
  const DraftHead& head;
  const RopeTable& rope;
  View<const float, 2> features;   // [T, H]: f, or g of the slot before
  std::span<const BatchRow> rows;  // [T]: positions and pages; the token is the one behind
  std::span<const int> outputs;    // rows whose g is wanted
  const LayerKv& kv;               // keys and values of all rows are written
  View<float, 2> out;              // [number of outputs, H]: g
  ThreadPool* pool{};
};
void draft_layer(const DraftLayerArgs& args);

struct DraftLogitsArgs {
  const DraftHead& head;
  View<const float, 2> out;  // [N, H]: g
  View<float, 2> normed;     // [N, H]: what a chain goes on with under norm_output
  View<float, 2> logits;     // [N, draft_vocab]
  ThreadPool* pool{};
};
void draft_logits(const DraftLogitsArgs& args);

// A head beside the model that it drafts for.
class HeadDrafter {
 public:
  // Takes what the head lacks from the model, which must outlive this.
  HeadDrafter(const DraftHead& head, const Weights& model, int num_full_pages);
  // Keeps what the step's forward pass leaves behind the layers that the head reads.
  Trace trace(ptrdiff_t num_rows);
  // Behind a step: fills the head's cache for its rows, and drafts what its runs ask for.
  std::vector<Drafts> draft(const Batch& batch, std::span<const BatchRow> rows,
                            std::span<const SampledToken> outputs, ThreadPool* pool);

  static size_t num_bytes(const DraftHeadConfig& head, int num_full_pages);  // of its cache

 private:
  DraftHead head_;
  int num_full_pages_;
  RopeTable rope_;
  KvCache kv_;
  Array<float, 2> taps_;
};

}  // namespace nibble::reference
