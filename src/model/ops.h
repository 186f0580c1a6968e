// The vocabulary of the forward pass: what each operation means, and what it cannot cost less than. Every backend has
// these operations (or fuses some and says which), in this order:
//
//   embed   for each layer: rms_norm, qkv, attend, attention_output, rms_norm, route, experts_gate_up, experts_down
//   rms_norm, unembed
//
// T tokens in the step, H hidden, D head dimension, Nq and Nkv heads, E experts of which K for a token, I their width,
// V vocabulary. Linear weights are [out, in]. An operation here is a plain struct of what determines its cost; costs are
//
//   weight_bytes   every weight that is needed, once: however many tokens share it
//   kv_bytes       of the KV cache, read or written
//   flops          two for a multiply-add of the matrix products; the element-wise rest is left out, but for rms_norm,
//                  which is nothing else
//
// Activations are left out of the bytes: they are small beside the weights or stay in a cache, and how they are stored
// is the backend's own affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace nibble {

struct Cost {
  size_t weight_bytes{0}, kv_bytes{0};
  uint64_t flops{0};

  size_t bytes_touched() const { return weight_bytes + kv_bytes; }
  Cost& operator+=(const Cost& other);
};

// x = W[id], as it is                                   W [V, H]    x [T, H]
struct Embed {
  int num_tokens, hidden;
  Format weights;
};
Cost cost(const Embed& op);

// y = x / sqrt(mean(x^2) + eps) * g                     x, y [T, H]    g [H]
struct RmsNorm {
  int num_tokens, hidden;
  Format vectors;
};
Cost cost(const RmsNorm& op);

// q, k, v = rope(Wq x + bq), rope(Wk x + bk), Wv x + bv; k and v are appended to the cache
//   Wq [Nq D, H]    Wk, Wv [Nkv D, H]
// rope turns the pairs (i, i + D/2) of a head by position * inv_freq_i, YaRN's frequencies, and scales by its magnitude.
struct Qkv {
  int num_tokens, hidden, num_heads, num_kv_heads, head_dim;
  Format weights, vectors, kv;
};
Cost cost(const Qkv& op);

// For each head:  p_j = exp(s_j - M) / (sum_k exp(s_k - M) + exp(sink - M)),  s_j = q . k_j / sqrt(D),  out = sum p_j v_j
// over positions j up to the token's own, of which a sliding layer sees the last `window`. The sink has no value row.
//   q, out [T, Nq D]    k, v [context, Nkv D]    sinks [Nq]
struct Attend {
  int num_tokens;
  int context;  // positions in the cache, those of the step included: the tokens are the last of them
  int window;   // 0: a full layer
  int num_heads, num_kv_heads, head_dim;
  Format vectors, kv;
};
Cost cost(const Attend& op);

// x += W attended + b                                   W [H, Nq D]
struct AttentionOutput {
  int num_tokens, hidden, num_heads, head_dim;
  Format weights, vectors;
};
Cost cost(const AttentionOutput& op);

// The K largest of W x + b, and a softmax over those K alone             W [E, H]
struct Route {
  int num_tokens, hidden, num_experts;
  Format weights, vectors;
};
Cost cost(const Route& op);

// For the K experts of each token:  (g, l) = rows (2i, 2i+1) of W[e] x + b[e];  g~ = min(g, 7);  l~ = clamp(l, -7, 7)
//   a_i = g~ sigmoid(1.702 g~) (l~ + 1)                 W [E, 2I, H]    a [T, K, I]
struct ExpertsGateUp {
  int num_tokens, hidden, intermediate, experts_per_token;
  double num_experts_hit;  // distinct ones over all tokens: counted, or expected
  Format weights, vectors;
};
Cost cost(const ExpertsGateUp& op);

// x += sum over the K experts of  weight_e (W[e] a_e + b[e])             W [E, H, I]
struct ExpertsDown {
  int num_tokens, hidden, intermediate, experts_per_token;
  double num_experts_hit;
  Format weights, vectors;
};
Cost cost(const ExpertsDown& op);

// logits = W x, for the rows whose next token is wanted                  W [V, H]
struct Unembed {
  int num_rows, hidden, vocab;
  Format weights;
};
Cost cost(const Unembed& op);

// What each part of a model is stored in; as released, if nothing else is said.
struct StorageFormats {
  Format embedding{Format::kBf16}, qkv{Format::kBf16}, attention_output{Format::kBf16}, router{Format::kBf16},
      experts{Format::kMxfp4}, unembedding{Format::kBf16};
  Format vectors{Format::kBf16};  // norms, biases, sinks
  Format kv{Format::kBf16};
};
// Of its first layer: checkpoints store all layers alike. Blocks count, for who takes them. The KV cache is the backend's
// choice.
StorageFormats formats_of(const Weights& weights);

// How many different experts n tokens hit in a layer, were routing independent and uniform: E (1 - (1 - K/E)^n).
// Neighbouring tokens like the same experts, so it is an upper estimate.
double expected_experts_hit(int num_experts, int experts_per_token, int num_tokens);

struct OperationCost {
  std::string_view operation;
  Cost cost;  // of all layers
};
// One sequence: `num_tokens` new tokens, the last of which sees `context` positions; one row of logits. Decoding is
// num_tokens = 1.
std::vector<OperationCost> step_costs(const Config& config, const StorageFormats& formats, int num_tokens,
                                      int context);
Cost total(const std::vector<OperationCost>& costs);

// What the KV cache of a sequence holds: full layers all positions, sliding layers those that a window reaches.
size_t kv_cache_bytes(const Config& config, Format kv, int num_positions);

}  // namespace nibble
