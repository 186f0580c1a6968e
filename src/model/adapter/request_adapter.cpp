#include "model/adapter/request_adapter.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/errors/error.h"
#include "core/numbers/as_size.h"

namespace nibble {
namespace {

std::optional<DenseUpdate>& place_of(RequestAdapter& adapter, const MatrixUpdate& part,
                                     const std::string& source) {
  LayerUpdates& layer = adapter.layers[as_size(part.layer)];
  switch (part.matrix) {
    case AdaptedMatrix::kQ:
      return layer.q;
    case AdaptedMatrix::kK:
      return layer.k;
    case AdaptedMatrix::kV:
      return layer.v;
    case AdaptedMatrix::kO:
      return layer.o;
    case AdaptedMatrix::kRouter:
      return layer.router;
    case AdaptedMatrix::kUnembedding:
      return adapter.unembedding;
    case AdaptedMatrix::kEmbedding:
    case AdaptedMatrix::kGateUp:
    case AdaptedMatrix::kDown:
      break;
  }
  throw InputError(
      "{}: the adapter changes {}; requests can choose only adapters of q, k, v, o, the router and lm_head: "
      "merge this one into the model with --lora",
      source, name_in(part.matrix, part.layer));
}

DenseUpdate in_float32(const MatrixUpdate& part, float scale, const Config& config,
                       const std::string& source) {
  const LowRankUpdate& update = part.update;
  scale *= update.scale;
  const Extents whole = extents_of(part.matrix, config);
  const size_t rank = as_size(update.rank), rows = as_size(whole.rows), cols = as_size(whole.cols);
  DenseUpdate dense{update.rank, std::vector<float>(rank * cols), std::vector<float>(rows * rank)};
  for (size_t k = 0; k < rank; ++k)
    for (size_t c = 0; c < cols; ++c) dense.a[k * cols + c] = update.a.at(k, c);
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < rank; ++k) dense.b[r * rank + k] = scale * update.b.at(r, k);
  if (!std::ranges::all_of(dense.b, [](float value) { return std::isfinite(value); }))
    throw InputError("{}: the update of {} has values that are not finite numbers after scaling", source,
                     name_in(part.matrix, part.layer));
  return dense;
}

}  // namespace

RequestAdapter keep_apart(const Adapter& adapter, float scale, const Config& config) {
  RequestAdapter kept;
  kept.layers.resize(as_size(config.num_layers));
  for (const MatrixUpdate& part : adapter.updates)
    place_of(kept, part, adapter.source) = in_float32(part, scale, config, adapter.source);
  return kept;
}

size_t num_bytes(const RequestAdapters& adapters) {
  size_t bytes = 0;
  for (const RequestAdapter& adapter : adapters)
    for_each_update(adapter, [&](const DenseUpdate& update) {
      bytes += (update.a.size() + update.b.size()) * sizeof(float);
    });
  return bytes;
}

int max_rank(const RequestAdapters& adapters) {
  int rank = 0;
  for (const RequestAdapter& adapter : adapters)
    for_each_update(adapter, [&](const DenseUpdate& update) { rank = std::max(rank, update.rank); });
  return rank;
}

}  // namespace nibble
