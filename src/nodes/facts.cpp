#include "nodes/facts.h"

#include <fmt/format.h>
#include <sodium.h>

#include <span>

#include "formats/foreign_matrix.h"
#include "model/adapter/low_rank.h"
#include "model/stored_experts.h"

namespace nibble::nodes {
namespace {

class Hash {
 public:
  Hash() { crypto_hash_sha256_init(&state_); }
  void add(const void* data, size_t bytes) {
    crypto_hash_sha256_update(&state_, static_cast<const uint8_t*>(data), bytes);
  }
  // Adds the size of `data` and 8 equally spaced samples of 64 bytes, from the first byte to the last.
  void sample(const void* data, size_t bytes) {
    constexpr size_t kSamples{8}, kSampleBytes{64};
    add(&bytes, sizeof bytes);
    if (bytes <= kSamples * kSampleBytes) return add(data, bytes);
    for (size_t i = 0; i < kSamples; ++i)
      add(static_cast<const std::byte*>(data) + (bytes - kSampleBytes) / (kSamples - 1) * i, kSampleBytes);
  }
  void sample(const Vector& vector, size_t count = 1) {
    sample(vector.data, num_bytes(vector.format, 1) * static_cast<size_t>(vector.count) * count);
  }
  void sample(const ForeignMatrix& matrix) {
    const auto rules = {static_cast<uint64_t>(matrix.layout), uint64_t{matrix.zero_offset},
                        static_cast<uint64_t>(matrix.group)};
    add(std::data(rules), rules.size() * sizeof(uint64_t));
    add(&matrix.factor, sizeof matrix.factor);
    sample(matrix.codes, code_bytes(matrix));
  }
  void sample(const ExpertTensor& tensor, size_t count, size_t rows, size_t cols) {
    if (tensor.foreign)
      for (const ForeignMatrix& matrix : *tensor.foreign) sample(matrix);
    for (size_t e = 0; e < count; ++e) {
      const std::span<const std::byte> codes = codes_of(tensor, e, rows, cols);
      sample(codes.data(), codes.size());
    }
  }
  void sample(const ExpertUpdates& updates) {
    for (const auto& of_expert : updates.of_expert) {
      const size_t num_updates = of_expert.size();
      add(&num_updates, sizeof num_updates);
      for (const LowRankUpdate& update : of_expert) {
        add(&update.scale, sizeof update.scale);
        const int rows[]{update.first_row, update.row_step};
        add(rows, sizeof rows);
        for (int k = 0; k < update.rank; ++k) {
          const auto row = static_cast<size_t>(k);
          const float values[]{update.a.at(row, 0), update.a.at(row, 1), update.b.at(0, row)};
          add(values, sizeof values);
        }
      }
    }
  }
  void sample(const Matrix& first, size_t count = 1) {
    if (const StoredExperts* experts = first.experts()) {
      const size_t rows = static_cast<size_t>(first.rows) / (experts->odd_rows ? 2 : 1),
                   cols = static_cast<size_t>(first.cols);
      sample(experts->rows, count, rows, cols);
      if (experts->odd_rows) sample(*experts->odd_rows, count, rows, cols);
      if (experts->updates) sample(*experts->updates);
      return;
    }
    if (const ForeignMatrix* foreign = first.foreign()) return sample(*foreign);
    const auto elements = count * static_cast<size_t>(first.rows) * static_cast<size_t>(first.cols);
    if (const Blocks* blocks = first.blocks()) {
      const size_t bytes = num_blocks_bytes(*blocks, first, count);
      sample(blocks->rows, bytes);
      if (blocks->odd_rows) sample(blocks->odd_rows, bytes);
      return;
    }
    const Elements& stored = first.elements();
    const size_t scales = stored.scales ? elements / 32 : 0;
    sample(stored.data, num_bytes(stored.format, elements) - scales);
    if (stored.scales) sample(stored.scales, scales);
    if (stored.row_scales) sample(stored.row_scales, count * static_cast<size_t>(first.rows) * sizeof(float));
  }
  std::string digits() {
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&state_, digest);
    constexpr size_t kDigits{32};
    char text[kDigits + 1];
    return sodium_bin2hex(text, sizeof text, digest, kDigits / 2);
  }

 private:
  static size_t num_blocks_bytes(const Blocks& blocks, const Matrix& first, size_t count) {
    const size_t rows = static_cast<size_t>(first.rows) * count / (blocks.odd_rows ? 2 : 1);
    return rows * row_of(blocks, 0, static_cast<size_t>(first.cols)).size();
  }
  crypto_hash_sha256_state state_;
};

}  // namespace

std::optional<std::string> difference(const Facts& head, int rank, const Facts& follower) {
  for (size_t i = 0; i < kNumFacts; ++i)
    if (head[i] != follower[i])
      return fmt::format("node {} has {} than node 0: {}; node 0 has {}", rank, kFactNames[i], follower[i],
                         head[i]);
  return std::nullopt;
}

std::string identity_of(const Config& config) {
  Hash hash;
  const std::string json = to_json(config);
  hash.add(json.data(), json.size());
  return hash.digits();
}

std::string identity_of(const Weights& weights) {
  const auto experts = static_cast<size_t>(weights.config.num_experts);
  Hash hash;
  for (const Matrix* matrix : {&weights.embedding, &weights.unembedding}) hash.sample(*matrix);
  hash.sample(weights.final_norm);
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router}) hash.sample(*matrix);
    for (const Vector* vector : {&layer.attention_norm, &layer.q_bias, &layer.k_bias, &layer.v_bias,
                                 &layer.sinks, &layer.o_bias, &layer.mlp_norm, &layer.router_bias})
      hash.sample(*vector);
    for (const ExpertMatrices* matrices : {&layer.gate_up, &layer.down}) {
      hash.sample(matrices->first, experts);
      hash.sample(matrices->first_bias, experts);
    }
  }
  return hash.digits();
}

}  // namespace nibble::nodes
