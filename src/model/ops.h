// The operations of the forward pass: the formula and a lower bound of the cost of each. Every backend runs
// them in this order, and reports which ones it fuses:
//   embed   for each layer: rms_norm, qkv, attend, project, rms_norm, route, experts up, experts down
//   rms_norm, unembed
// T tokens in the step, H hidden, D head dimension, Nq and Nkv heads, E experts, K experts per token, I width
// of an expert, V vocabulary. Linear weights are [out, in]. Each struct holds what its cost depends on:
//   weight_bytes   every weight that is needed, counted once even if many tokens share it
//   kv_bytes       of the KV cache, read or written
//   flops          two per multiply-add of matrix products; element-wise work counts only in rms_norm
// The bytes exclude activations, which are small compared to the weights or stay in a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/operation.h"
#include "model/weights.h"

namespace nibble {

struct Cost {
  size_t weight_bytes{0}, kv_bytes{0};
  uint64_t flops{0};

  size_t bytes_touched() const { return weight_bytes + kv_bytes; }
  Cost& operator+=(const Cost& other);
};

// x = W[id], the row of the token                    W [V, H]    x [T, H]
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
// rope rotates the pairs (i, i + D/2) by position * YaRN's inv_freq_i, and scales by YaRN's concentration.
struct Qkv {
  int num_tokens, hidden, num_heads, num_kv_heads, head_dim;
  Format weights, vectors, kv;
};
Cost cost(const Qkv& op);

// For each head:
//   p_j = exp(s_j - M) / (sum_k exp(s_k - M) + exp(sink - M)),   s_j = q . k_j / sqrt(D),   out = sum p_j v_j
// over positions j up to the token's own; a sliding layer sees the last `window`. The sink has no value.
//   q, out [T, Nq D]    k, v [context, Nkv D]    sinks [Nq]
struct Attend {
  int num_tokens;
  int context;  // positions in the cache, including the step's tokens, which are the last ones
  int window;   // 0: a full layer
  int num_heads, num_kv_heads, head_dim;
  Format vectors, kv;
};
Cost cost(const Attend& op);

// x += W attended + b                                   W [H, Nq D]
struct Project {
  int num_tokens, hidden, num_heads, head_dim;
  Format weights, vectors;
};
Cost cost(const Project& op);

// The K largest of W x + b, and a softmax over only these K              W [E, H]
struct Route {
  int num_tokens, hidden, num_experts;
  Format weights, vectors;
};
Cost cost(const Route& op);

// For the K experts of each token:
//   (g, l) = rows (2i, 2i+1) of W[e] x + b[e], gate and linear part;   g~ = min(g, 7);   l~ = clamp(l, -7, 7)
//   a_i = g~ sigmoid(1.702 g~) (l~ + 1)                 W [E, 2I, H]    a [T, K, I]
struct ExpertsUp {
  int num_tokens, hidden, intermediate, experts_per_token;
  double num_experts_hit;  // distinct experts chosen by the tokens: counted or expected
  Format weights, vectors;
};
Cost cost(const ExpertsUp& op);

// x += sum over the K experts of  weight_e (W[e] a_e + b[e])             W [E, H, I]
struct ExpertsDown {
  int num_tokens, hidden, intermediate, experts_per_token;
  double num_experts_hit;
  Format weights, vectors;
};
Cost cost(const ExpertsDown& op);

// logits = W x, for the output rows                                    W [V, H]
struct Unembed {
  int num_rows, hidden, vocab;
  Format weights;
};
Cost cost(const Unembed& op);

// The storage format of each part of a model. The defaults are those of the released checkpoints.
struct StorageFormats {
  Format embedding{Format::kBf16}, qkv{Format::kBf16}, attention_output{Format::kBf16}, router{Format::kBf16},
      experts{Format::kMxfp4}, unembedding{Format::kBf16};
  Format vectors{Format::kBf16};  // norms, biases, sinks
  Format kv{Format::kBf16};
};
// Returns the formats of the weights; layer 0 stands for all layers. The caller sets `kv` for its backend.
StorageFormats formats_of(const Weights& weights);

// Returns the expected number of distinct experts that num_tokens tokens choose in a layer if routing is
// independent and uniform: E (1 - (1 - K/E)^T). In reality fewer: adjacent tokens tend to choose the same
// experts.
double expected_experts_hit(int num_experts, int experts_per_token, int num_tokens);

struct OperationCost {
  Operation operation;
  Cost cost;  // sum over all layers
};
// Returns the costs of a step of `num_sequences` sequences. Each sequence has its own cache, `num_tokens` new
// tokens (1 in decode) and one row of logits. Its last token attends to `context` positions.
std::vector<OperationCost> step_costs(const Config& config, const StorageFormats& formats, int num_tokens,
                                      int context, int num_sequences = 1);
Cost total(const std::vector<OperationCost>& costs);

// Returns the bytes of one sequence in the KV cache: full layers keep all positions, sliding layers the
// window.
size_t kv_cache_bytes(const Config& config, Format kv, int num_positions);

}  // namespace nibble
