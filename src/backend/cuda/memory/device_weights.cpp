#include "backend/cuda/memory/device_weights.h"

#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/memory/arena.h"
#include "backend/cuda/memory/uploader.h"

namespace nibble::cuda {
namespace {

DeviceWeights place(const Config& whole, const Share& share, const DenseFormats& dense, Arena& arena) {
  const Config config = config_of(whole, share);
  const int hidden = config.hidden, experts = config.experts().count;
  const int q = config.num_heads * config.head_dim, qkv = q + 2 * config.num_kv_heads * config.head_dim;
  const auto count = [](int a, int b = 1) { return size_t{1} * a * b; };
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
    layer.router_bias = arena.take_array<float>(count(config.num_experts));
    layer.up = arena.take_strips(make_strips(Layout::kMxfp4, 2 * config.intermediate, hidden), experts);
    layer.up_bias = arena.take_array<float>(count(experts, 2 * config.intermediate));
    layer.down = arena.take_strips(make_strips(Layout::kMxfp4, hidden, config.intermediate), experts);
    layer.down_bias = arena.take_array<float>(count(experts, hidden));
    weights.layers.push_back(layer);
  }
  weights.final_norm = arena.take_array<float>(count(hidden));
  weights.unembedding =
      arena.take_strips(make_strips(layout_of(dense.unembedding), share.vocab.count, hidden));
  weights.first_of_vocab = share.vocab.first;
  return weights;
}

size_t bytes_of(const Strips& strips) {
  return strips.matrix_bytes() + (strips.row_scales ? strips.rows * sizeof(float) : 0);
}
size_t bytes_of(const Matrix& matrix) { return matrix_bytes(matrix.format(), matrix.rows, matrix.cols); }

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
    if (after != Format::kBf16 && after != before)
      log_conversion(group, before, after, bytes_before, bytes_after);
  };
  log("qkv", weights.layers.front().q.format(), dense.qkv, qkv_before, qkv_after);
  log("o", weights.layers.front().o.format(), dense.attention_output, o_before, o_after);
  log("lm_head", weights.unembedding.format(), dense.unembedding, bytes_of(weights.unembedding),
      bytes_of(device.unembedding));
}

}  // namespace

size_t device_weight_bytes(const Config& whole, const Share& share, const DenseFormats& dense) {
  Arena arena(nullptr);
  place(whole, share, dense, arena);
  return arena.size();
}

DeviceWeights upload(const Weights& weights, const Share& share, const DenseFormats& dense, int num_threads,
                     const ReportProgress& report) {
  const Config& whole = weights.config;
  // If GPU and host share memory, the pages of the model's files in the page cache take memory that the
  // weights need, so these pages are dropped. On other machines they stay, which speeds up the next start.
  const MappedFiles dropped_files = device_caps().is_integrated ? weights.files : MappedFiles{};
  drop_all_pages(dropped_files);
  DeviceBuffer storage(device_weight_bytes(whole, share, dense));
  Arena arena(storage.as<uint8_t>());
  DeviceWeights device = place(whole, share, dense, arena);
  device.storage = std::move(storage);

  const auto report_until = [&, total = device.storage.bytes()](const void* end) {
    if (report) report(static_cast<const uint8_t*>(end) - device.storage.as<uint8_t>(), total);
  };
  report_until(device.embedding);  // reports 0 bytes: pinning the upload buffers comes next and takes seconds
  Uploader uploader(weights.source, dropped_files, num_threads);
  uploader.rows(weights.embedding, "the embedding", device.embedding);
  const MatrixSlice q = share.q(whole), kv = share.k_and_v(whole), o = share.o(whole),
                    up = share.gate_up(whole), down = share.down(whole);
  // The sum over ranks must contain a bias once: one rank has the bias, and the other ranks have zeros.
  const auto bias_added_once = [&](bool is_added_here, const Vector& first, int num, float* to) {
    if (is_added_here)
      uploader.vectors(first, num, {0, first.count}, to);
    else
      uploader.zeros(num * first.count, to);
  };
  const auto [expert, num_experts] = share.experts;
  for (size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = weights.layers[l];
    const DeviceLayer& to = device.layers[l];
    report_until(to.attention_norm);
    uploader.vector(from.attention_norm, to.attention_norm);
    uploader.dense(from.q, "q", q, 0, to.qkv);
    uploader.dense(from.k, "k", kv, q.rows.count, to.qkv);
    uploader.dense(from.v, "v", kv, q.rows.count + kv.rows.count, to.qkv);
    uploader.vectors(from.q_bias, 1, q.rows, to.qkv_bias);
    uploader.vectors(from.k_bias, 1, kv.rows, to.qkv_bias + q.rows.count);
    uploader.vectors(from.v_bias, 1, kv.rows, to.qkv_bias + q.rows.count + kv.rows.count);
    uploader.vectors(from.sinks, 1, share.heads, to.sinks);
    uploader.dense(from.o, "o", o, 0, to.o);
    bias_added_once(share.adds_o_bias(), from.o_bias, 1, to.o_bias);
    uploader.vector(from.mlp_norm, to.mlp_norm);
    uploader.dense(from.router, "the router", 0, to.router);
    uploader.vector(from.router_bias, to.router_bias);
    uploader.experts(from.gate_up, share.experts, up, RowOrder::kGateAndUp, to.up);
    uploader.experts(from.down, share.experts, down, RowOrder::kAsStored, to.down);
    uploader.vectors(from.gate_up.bias(expert), num_experts, up.rows, to.up_bias);
    bias_added_once(share.adds_down_bias(), from.down.bias(expert), num_experts, to.down_bias);
  }
  report_until(device.final_norm);
  uploader.vector(weights.final_norm, device.final_norm);
  uploader.dense(weights.unembedding, "the unembedding", share.unembedding(whole), 0, device.unembedding);
  uploader.finish(device.storage.bytes());
  report_until(device.storage.as<uint8_t>() + device.storage.bytes());
  if (share.rank == 0) log_conversions(weights, dense, device);
  return device;
}

}  // namespace nibble::cuda
