#include "model/ops.h"

#include <algorithm>
#include <cmath>

#include "core/errors/check.h"

namespace nibble {
namespace {

size_t size(int extent) { return static_cast<size_t>(extent); }

// Returns the bytes of a linear layer's weights [out, in] and, if `vectors` is given, of its bias [out].
size_t linear_bytes(int out, int in, Format weights) { return matrix_bytes(weights, size(out), size(in)); }
size_t linear_bytes(int out, int in, Format weights, Format vectors) {
  return linear_bytes(out, in, weights) + num_bytes(vectors, size(out));
}
uint64_t linear_flops(int num_tokens, int out, int in) { return 2 * size(num_tokens) * size(out) * size(in); }

size_t expert_bytes(double num_experts_hit, int out, int in, Format weights, Format vectors) {
  const auto one = static_cast<double>(linear_bytes(out, in, weights, vectors));
  return static_cast<size_t>(std::llround(num_experts_hit * one));
}

// Returns the bytes of the keys and values of one layer.
size_t kv_layer_bytes(int num_positions, int num_kv_heads, int head_dim, Format kv) {
  return 2 * num_bytes(kv, size(num_positions) * size(num_kv_heads) * size(head_dim));
}

// Returns the sum over i = 1..n of min(i, window): (token, position) pairs that the first n tokens attend to.
uint64_t visible_sum(uint64_t n, uint64_t window) {
  const uint64_t ramp = std::min(n, window);
  return ramp * (ramp + 1) / 2 + (n - ramp) * window;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  flops += other.flops;
  return *this;
}

Cost cost(const Embed& op) {
  return {.weight_bytes = size(op.num_tokens) * num_bytes(op.weights, size(op.hidden))};
}

Cost cost(const RmsNorm& op) {
  return {.weight_bytes = num_bytes(op.vectors, size(op.hidden)),
          .flops = 4 * size(op.num_tokens) * size(op.hidden)};  // square, sum, scale, times g
}

Cost cost(const Qkv& op) {
  const int q_rows = op.num_heads * op.head_dim, kv_rows = op.num_kv_heads * op.head_dim;
  return {.weight_bytes = linear_bytes(q_rows, op.hidden, op.weights, op.vectors) +
                          2 * linear_bytes(kv_rows, op.hidden, op.weights, op.vectors),
          .kv_bytes = kv_layer_bytes(op.num_tokens, op.num_kv_heads, op.head_dim, op.kv),
          .flops = linear_flops(op.num_tokens, q_rows + 2 * kv_rows, op.hidden)};
}

Cost cost(const Attend& op) {
  NIBBLE_CHECK(op.num_tokens <= op.context, "{} tokens in {} positions", op.num_tokens, op.context);
  const int reach = op.window == 0 ? op.context : std::min(op.context, op.window - 1 + op.num_tokens);
  const uint64_t window = size(op.window == 0 ? op.context : op.window);
  const uint64_t num_pairs =
      visible_sum(size(op.context), window) - visible_sum(size(op.context - op.num_tokens), window);
  return {.weight_bytes = num_bytes(op.vectors, size(op.num_heads)),
          .kv_bytes = kv_layer_bytes(reach, op.num_kv_heads, op.head_dim, op.kv),
          .flops = 4 * num_pairs * size(op.num_heads) * size(op.head_dim)};  // products q . k and p v
}

Cost cost(const Project& op) {
  const int in = op.num_heads * op.head_dim;
  return {.weight_bytes = linear_bytes(op.hidden, in, op.weights, op.vectors),
          .flops = linear_flops(op.num_tokens, op.hidden, in)};
}

Cost cost(const Route& op) {
  return {.weight_bytes = linear_bytes(op.num_experts, op.hidden, op.weights, op.vectors),
          .flops = linear_flops(op.num_tokens, op.num_experts, op.hidden)};
}

Cost cost(const ExpertsUp& op) {
  const int out = 2 * op.intermediate;
  return {.weight_bytes = expert_bytes(op.num_experts_hit, out, op.hidden, op.weights, op.vectors),
          .flops = size(op.experts_per_token) * linear_flops(op.num_tokens, out, op.hidden)};
}

Cost cost(const ExpertsDown& op) {
  return {
      .weight_bytes = expert_bytes(op.num_experts_hit, op.hidden, op.intermediate, op.weights, op.vectors),
      .flops = size(op.experts_per_token) * linear_flops(op.num_tokens, op.hidden, op.intermediate)};
}

Cost cost(const Unembed& op) {
  return {.weight_bytes = linear_bytes(op.vocab, op.hidden, op.weights),
          .flops = linear_flops(op.num_rows, op.vocab, op.hidden)};
}

StorageFormats formats_of(const Weights& weights) {
  const LayerWeights& layer = weights.layers.at(0);
  return {.embedding = weights.embedding.format(),
          .qkv = layer.q.format(),
          .attention_output = layer.o.format(),
          .router = converted_format(layer.router),
          .experts = layer.gate_up.first.format(),
          .unembedding = weights.unembedding.format(),
          .vectors = layer.attention_norm.format};
}

double expected_experts_hit(int num_experts, int experts_per_token, int num_tokens) {
  return num_experts * (1 - std::pow(1 - static_cast<double>(experts_per_token) / num_experts, num_tokens));
}

std::vector<OperationCost> step_costs(const Config& config, const StorageFormats& formats, int num_tokens,
                                      int context, int num_sequences) {
  const int t = num_tokens * num_sequences, h = config.hidden, nq = config.num_heads,
            nkv = config.num_kv_heads, d = config.head_dim, k = config.experts_per_token;
  const double num_experts_hit = expected_experts_hit(config.num_experts, k, t);
  const auto [embedding, qkv, output, router, experts, unembedding, vectors, kv] = formats;

  Cost norms, qkvs, attends, projects, routes, ups, downs;
  for (const LayerKind kind : config.layer_kinds) {
    const int window = kind == LayerKind::kSliding ? config.window : 0;
    norms += cost(RmsNorm{t, h, vectors});
    qkvs += cost(Qkv{t, h, nq, nkv, d, qkv, vectors, kv});
    Cost attend = cost(Attend{num_tokens, context, window, nq, nkv, d, vectors, kv});
    attend.kv_bytes *= size(num_sequences);
    attend.flops *= size(num_sequences);
    attends += attend;
    projects += cost(Project{t, h, nq, d, output, vectors});
    norms += cost(RmsNorm{t, h, vectors});
    routes += cost(Route{t, h, config.num_experts, router, vectors});
    ups += cost(ExpertsUp{t, h, config.intermediate, k, num_experts_hit, experts, vectors});
    downs += cost(ExpertsDown{t, h, config.intermediate, k, num_experts_hit, experts, vectors});
  }
  norms += cost(RmsNorm{num_sequences, h, vectors});
  return {{Operation::kEmbed, cost(Embed{t, h, embedding})},
          {Operation::kRmsNorm, norms},
          {Operation::kQkv, qkvs},
          {Operation::kAttend, attends},
          {Operation::kProject, projects},
          {Operation::kRoute, routes},
          {Operation::kExpertsUp, ups},
          {Operation::kExpertsDown, downs},
          {Operation::kUnembed, cost(Unembed{num_sequences, h, config.vocab, unembedding})}};
}

Cost total(const std::vector<OperationCost>& costs) {
  Cost sum;
  for (const OperationCost& row : costs) sum += row.cost;
  return sum;
}

size_t kv_cache_bytes(const Config& config, Format kv, int num_positions) {
  size_t bytes{0};
  for (const LayerKind kind : config.layer_kinds) {
    const int kept = kind == LayerKind::kSliding ? std::min(num_positions, config.window) : num_positions;
    bytes += kv_layer_bytes(kept, config.num_kv_heads, config.head_dim, kv);
  }
  return bytes;
}

}  // namespace nibble
