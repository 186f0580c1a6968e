#include "backend/cuda/device_weights.h"

#include "backend/cuda/arena.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/uploader.h"

namespace nibble::cuda {
namespace {

// Assigns every tensor its place in the arena.
DeviceWeights place(const Config& config, const DenseFormats& dense, Arena& arena) {
  const int hidden = config.hidden, experts = config.num_experts;
  const int q = config.num_heads * config.head_dim, qkv = q + 2 * config.num_kv_heads * config.head_dim;
  const auto count = [](int a, int b = 1) { return static_cast<size_t>(a) * static_cast<size_t>(b); };
  DeviceWeights weights;
  weights.embedding = arena.take_array<__nv_bfloat16>(count(config.vocab, hidden));
  for (const LayerKind kind : config.layer_kinds) {
    DeviceLayer layer;
    layer.kind = kind;
    layer.attention_norm = arena.take_array<float>(count(hidden));
    layer.qkv = arena.take_strips(make_strips(layout_of(dense.qkv), qkv, hidden));
    layer.qkv_bias = arena.take_array<float>(count(qkv));
    layer.sinks = arena.take_array<float>(count(config.num_heads));
    layer.o = arena.take_strips(make_strips(layout_of(dense.attention_output), hidden, q));
    layer.o_bias = arena.take_array<float>(count(hidden));
    layer.mlp_norm = arena.take_array<float>(count(hidden));
    layer.router = arena.take_strips(router_strips(config));
    layer.router_bias = arena.take_array<float>(count(experts));
    layer.up = arena.take_strips(make_strips(Layout::kMxfp4, 2 * config.intermediate, hidden), experts);
    layer.up_bias = arena.take_array<float>(count(experts, 2 * config.intermediate));
    layer.down = arena.take_strips(make_strips(Layout::kMxfp4, hidden, config.intermediate), experts);
    layer.down_bias = arena.take_array<float>(count(experts, hidden));
    weights.layers.push_back(layer);
  }
  weights.final_norm = arena.take_array<float>(count(hidden));
  weights.unembedding = arena.take_strips(make_strips(layout_of(dense.unembedding), config.vocab, hidden));
  return weights;
}

size_t bytes_of(const Strips& strips) {
  return strips.matrix_bytes() + (strips.row_scales ? static_cast<size_t>(strips.rows) * sizeof(float) : 0);
}
size_t bytes_of(const Matrix& matrix) {
  return matrix_bytes(matrix.format(), static_cast<size_t>(matrix.rows), static_cast<size_t>(matrix.cols));
}

void log_conversions(const Weights& weights, const DenseFormats& dense, const DeviceWeights& device) {
  size_t qkv_before = 0, qkv_after = 0, o_before = 0, o_after = 0;
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = weights.layers[l];
    qkv_before += bytes_of(from.q) + bytes_of(from.k) + bytes_of(from.v);
    qkv_after += bytes_of(device.layers[l].qkv);
    o_before += bytes_of(from.o);
    o_after += bytes_of(device.layers[l].o);
  }
  const auto log = [](const char* group, Format before, Format after, size_t bytes_before,
                      size_t bytes_after) {
    if (after != Format::kBf16) log_conversion(group, before, after, bytes_before, bytes_after);
  };
  log("qkv", weights.layers.front().q.format(), dense.qkv, qkv_before, qkv_after);
  log("o", weights.layers.front().o.format(), dense.attention_output, o_before, o_after);
  log("lm_head", weights.unembedding.format(), dense.unembedding, bytes_of(weights.unembedding),
      bytes_of(device.unembedding));
}

}  // namespace

size_t device_weight_bytes(const Config& config, const DenseFormats& dense) {
  Arena arena(nullptr);
  place(config, dense, arena);
  return arena.size();
}

DeviceWeights upload(const Weights& weights, const DenseFormats& dense, int num_threads) {
  const Config& config = weights.config;
  // Where host and device share their memory, the weights and the page cache's copy of them would not fit together, and a cache that
  // is full of them, as after a download, leaves the driver none to give. Elsewhere the cache makes a second start faster.
  const MappedFiles dropped_files = device_caps().is_integrated ? weights.files : MappedFiles{};
  drop_all_pages(dropped_files);
  DeviceBuffer storage(device_weight_bytes(config, dense));
  Arena arena(storage.as<uint8_t>());
  DeviceWeights device = place(config, dense, arena);
  device.storage = std::move(storage);

  Uploader uploader(weights.source, dropped_files, num_threads);
  uploader.rows(weights.embedding, "the embedding", device.embedding);
  const int q_rows = config.num_heads * config.head_dim, kv_rows = config.num_kv_heads * config.head_dim;
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = weights.layers[l];
    const DeviceLayer& to = device.layers[l];
    uploader.vector(from.attention_norm, to.attention_norm);
    uploader.dense(from.q, "q", 0, to.qkv);
    uploader.dense(from.k, "k", q_rows, to.qkv);
    uploader.dense(from.v, "v", q_rows + kv_rows, to.qkv);
    uploader.vector(from.q_bias, to.qkv_bias);
    uploader.vector(from.k_bias, to.qkv_bias + q_rows);
    uploader.vector(from.v_bias, to.qkv_bias + q_rows + kv_rows);
    uploader.vector(from.sinks, to.sinks);
    uploader.dense(from.o, "o", 0, to.o);
    uploader.vector(from.o_bias, to.o_bias);
    uploader.vector(from.mlp_norm, to.mlp_norm);
    uploader.dense(from.router, "the router", 0, to.router);
    uploader.vector(from.router_bias, to.router_bias);
    uploader.experts(from.gate_up, config.num_experts, RowOrder::kGateAndUp, to.up);
    uploader.experts(from.down, config.num_experts, RowOrder::kAsStored, to.down);
    // The biases of all experts are contiguous.
    Vector up_bias = from.gate_up.first_bias, down_bias = from.down.first_bias;
    up_bias.count *= config.num_experts;
    down_bias.count *= config.num_experts;
    uploader.vector(up_bias, to.up_bias);
    uploader.vector(down_bias, to.down_bias);
  }
  uploader.vector(weights.final_norm, device.final_norm);
  uploader.dense(weights.unembedding, "the unembedding", 0, device.unembedding);
  uploader.finish(device.storage.bytes());
  log_conversions(weights, dense, device);
  return device;
}

}  // namespace nibble::cuda
