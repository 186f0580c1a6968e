#include "setup/model/read_weights.h"

#include <algorithm>
#include <span>
#include <vector>

namespace nibble {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kPage{4096};
constexpr size_t kStep{64 << 20};  // bytes between two progress reports

Bytes bytes_of(const void* data, size_t count) { return {static_cast<const std::byte*>(data), count}; }

// Adds a matrix to `parts`, unless it is in a block format: repacking reads such matrices completely anyway.
void append(std::vector<Bytes>& parts, const Matrix& matrix, size_t num_matrices) {
  if (matrix.blocks() || matrix.foreign()) return;
  const Elements& stored = matrix.elements();
  const size_t elements = num_matrices * static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
  const size_t scales = stored.scales ? elements / 32 : 0;
  parts.push_back(bytes_of(stored.data, num_bytes(stored.format, elements) - scales));
  if (stored.scales) parts.push_back(bytes_of(stored.scales, scales));
}

// Returns the bytes of all matrices. Vectors (norms, biases) are left out: they lie between the matrices, and
// have a thousandth of their bytes.
std::vector<Bytes> matrices(const Weights& weights) {
  std::vector<Bytes> parts;
  const size_t experts = static_cast<size_t>(weights.config.experts().count);
  append(parts, weights.embedding, 1);
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router})
      append(parts, *matrix, 1);
    append(parts, layer.gate_up.first, experts);
    append(parts, layer.down.first, experts);
  }
  append(parts, weights.unembedding, 1);
  return parts;
}

}  // namespace

void read_weights(const Weights& weights, const ReportProgress& report) {
  std::vector<Bytes> parts = matrices(weights);
  size_t total = 0, done = 0;
  for (const Bytes part : parts) total += part.size();
  // Read in the order of the file, for read-ahead: matrices in a file are not ordered by layer.
  std::ranges::sort(parts, [](Bytes a, Bytes b) { return a.data() < b.data(); });
  for (const Bytes part : parts) {
    for (size_t at = 0; at < part.size(); at += kPage) {
      [[maybe_unused]] const volatile std::byte touched = part[at];
      if (at % kStep == 0) report(done + at, total);
    }
    done += part.size();
  }
  report(total, total);
}

}  // namespace nibble
