#include "model/shares/share_weights.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/tensors/buffer.h"

namespace nibble {
namespace {

using Buffers = std::vector<Buffer>;

ElementSize size_of(Format format) {
  NIBBLE_CHECK(format == Format::kF32 || format == Format::kBf16 || format == Format::kMxfp4 ||
                   format == Format::kE4m3,
               "{}", name(format));
  if (format == Format::kMxfp4) return {1, 2};
  if (format == Format::kE4m3) return {1, 1};
  return {format == Format::kF32 ? sizeof(float) : sizeof(Bf16), 1};
}
constexpr ElementSize kScaleSize{1, 32};

class ShareTaker {
 public:
  explicit ShareTaker(const Weights& whole) : whole_(whole) {}

  Matrix matrices(const Matrix& first, int count, const MatrixSlice& slice, Buffers& kept) const {
    const Elements& all = first.elements();
    const auto part = [&](const void* data, ElementSize size) {
      return keep(pieces_of({data, size, first.rows, first.cols, count}, slice), kept);
    };
    Elements own{.format = all.format, .data = part(all.data, size_of(all.format))};
    if (all.scales) own.scales = static_cast<const uint8_t*>(part(all.scales, kScaleSize));
    if (all.row_scales) own.row_scales = all.row_scales + slice.rows.first;
    return {slice.rows.count, slice.cols.count, own};
  }
  Vector vectors(const Vector& first, int count, const IndexRange& part, Buffers& kept) const {
    const MatrixSlice slice{{0, count}, part};
    return {keep(pieces_of({first.data, size_of(first.format), count, first.count}, slice), kept),
            first.format, part.count};
  }
  // Returns `count` vectors from `first` on if this rank adds them (is_added_here), otherwise zeros.
  Vector once(const Vector& first, int count, bool is_added_here, Buffers& kept) const {
    if (is_added_here) return first;
    Buffer& zeros = kept.emplace_back(static_cast<size_t>(count * first.count) * sizeof(float));
    std::memset(zeros.data(), 0, zeros.bytes());
    return {zeros.data(), Format::kF32, first.count};
  }

 private:
  const void* keep(const Pieces& pieces, Buffers& kept) const {
    if (pieces.count == 1) return pieces.data;
    Buffer& copy = kept.emplace_back(pieces.total());
    for (size_t i = 0; i < pieces.count; ++i)
      std::memcpy(copy.data() + i * pieces.bytes, pieces.data + i * pieces.stride, pieces.bytes);
    for (const auto& file : whole_.files)
      if (std::span all = file->bytes(); pieces.data >= all.data() && pieces.data < all.data() + all.size())
        release_pages({pieces.data, pieces.stride * (pieces.count - 1) + pieces.bytes});
    return copy.data();
  }

  const Weights& whole_;
};

struct ShareStorage {
  std::shared_ptr<const void> whole;
  Buffers copies;
};

}  // namespace

std::shared_ptr<const Weights> share_of(const Weights& whole, const Share& share,
                                        const ReportProgress& report) {
  const Config& config = whole.config;
  const ShareTaker taker(whole);
  const auto storage = std::make_shared<ShareStorage>();
  storage->whole = whole.storage;
  auto weights = std::make_shared<Weights>();
  weights->config = config_of(config, share);
  weights->embedding = whole.embedding;
  weights->final_norm = whole.final_norm;
  weights->unembedding = taker.matrices(whole.unembedding, 1, share.unembedding(config), storage->copies);
  weights->source = whole.source;
  for (const LayerWeights& from : whole.layers) {
    LayerWeights& to = weights->layers.emplace_back(from);
    Buffers& dense = storage->copies;
    const MatrixSlice q = share.q(config), kv = share.k_and_v(config), up = share.gate_up(config);
    to.q = taker.matrices(from.q, 1, q, dense);
    to.k = taker.matrices(from.k, 1, kv, dense);
    to.v = taker.matrices(from.v, 1, kv, dense);
    to.o = taker.matrices(from.o, 1, share.o(config), dense);
    to.q_bias = taker.vectors(from.q_bias, 1, q.rows, dense);
    to.k_bias = taker.vectors(from.k_bias, 1, kv.rows, dense);
    to.v_bias = taker.vectors(from.v_bias, 1, kv.rows, dense);
    to.sinks = taker.vectors(from.sinks, 1, share.heads, dense);
    to.o_bias = taker.once(from.o_bias, 1, share.adds_o_bias(), dense);
    const auto [expert, num_experts] = share.experts;
    to.gate_up.first_bias = taker.vectors(from.gate_up.bias(expert), num_experts, up.rows, dense);
    to.down.first_bias = taker.once(from.down.bias(expert), num_experts, share.adds_down_bias(), dense);
    auto experts = std::make_shared<ShareStorage>();
    const bool has_views = up.rows.count == from.gate_up.first.rows || num_experts == 1;
    if (has_views) experts->whole = from.experts_storage;
    to.gate_up.first = taker.matrices(from.gate_up.matrix(expert), num_experts, up, experts->copies);
    to.down.first =
        taker.matrices(from.down.matrix(expert), num_experts, share.down(config), experts->copies);
    to.experts_storage = std::move(experts);
    if (report) report(weights->layers.size(), whole.layers.size());
  }
  weights->storage = storage;
  return weights;
}

}  // namespace nibble
