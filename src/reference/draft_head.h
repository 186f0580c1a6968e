// The network of a draft head (model/draft_head/draft_head.h). It has one slot per row. Inputs of slot i: f,
// the features of position i, and t, the known token of position i + 1. All norms are root-mean-square norms;
// no product has a bias.
//   f = Wfc norm([x^a, x^b, x^c])      x^a, x^b, x^c: the residual stream after the three tapped layers;
//                                      norm only with norm_before_fc
//   h = norm(f)
//   z = [norm(E[t]), h]
//   q, k, v = Wq z, Wk z, Wv z         q and k rotated by position i
//   r = f + Wo attention(q, k, v)      causal, over all slots, without sinks;
//                                      with norm_before_residual: r = h + Wo attention(q, k, v)
//   y = norm(r)
//   g = r + Wdown(silu(Wgate y) Wup y)
//   logits = Wu norm(g)                for the token at position i + 2
// A chain continues with slot i + 1: its f is g (with norm_output: norm(g)), its t is the drafted token.
#pragma once

#include <span>

#include "core/tensors/view.h"
#include "core/threads/thread_pool.h"
#include "model/batch.h"
#include "model/draft_head/draft_head.h"
#include "reference/array.h"
#include "reference/forward.h"
#include "reference/kv_cache.h"
#include "reference/rope.h"

namespace nibble::reference {

struct JoinFeaturesArgs {
  const DraftHead& head;
  View<const float, 2> taps;  // [T, 3 H]: outputs of the three tapped layers
  View<float, 2> features;    // [T, H]: receives f
  ThreadPool* pool{};
};
void join_features(const JoinFeaturesArgs& args);

struct DraftLayerArgs {
  const DraftHead& head;
  const RopeTable& rope;
  View<const float, 2> features;   // [T, H]: f; in a chain, g of the previous slot or norm(g)
  std::span<const BatchRow> rows;  // [T]: each row has the token of the next position
  std::span<const int> outputs;    // indices of the rows for which g is computed
  const LayerKv& kv;               // receives the keys and values of all rows
  View<float, 2> out;              // [outputs.size(), H]: receives g
  ThreadPool* pool{};
};
void draft_layer(const DraftLayerArgs& args);

struct DraftLogitsArgs {
  const DraftHead& head;
  View<const float, 2> out;  // [N, H]: g, the output of the draft layer
  View<float, 2> normed;     // [N, H]: receives norm(g), from which a chain continues with norm_output
  View<float, 2> logits;     // [N, draft_vocab]: receives the logits
  ThreadPool* pool{};
};
void draft_logits(const DraftLogitsArgs& args);

class HeadDrafter {  // a draft head, with the model that it drafts for
 public:
  // If the head lacks the embedding or unembedding, uses the model's, which must outlive this object.
  HeadDrafter(const DraftHead& head, const Weights& model, int num_pages);
  Trace trace(ptrdiff_t num_rows);  // returns a Trace that stores the outputs of the tapped layers
  // Called after a step. Fills the head's KV cache for its rows, then makes the drafts that its runs request.
  std::vector<Drafts> draft(const Batch& batch, std::span<const BatchRow> rows,
                            std::span<const SampledToken> outputs, ThreadPool* pool);

  static size_t num_bytes(const DraftHeadConfig& head, int num_pages);  // size of the head's KV cache

 private:
  DraftHead head_;
  int num_pages_;
  RopeTable rope_;
  KvCache kv_;
  Array<float, 2> taps_;
};

}  // namespace nibble::reference
