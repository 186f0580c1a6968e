// LoRA adapters that requests choose. They stay apart from the weights: the product with a dense matrix W is
//   y = W x + B (A x)
// for the rows of a step that use the adapter (Run::adapter), and y = W x for all others.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/adapter/adapter.h"
#include "model/config.h"

namespace nibble {

struct DenseUpdate {
  int rank{0};
  std::vector<float> a;  // [rank, cols of W]
  std::vector<float> b;  // [rows of W, rank], multiplied by the update's scale
};

struct LayerUpdates {  // matrices without an update are not set
  std::optional<DenseUpdate> q, k, v, o, router;
};

struct RequestAdapter {
  std::vector<LayerUpdates> layers;  // one for each layer of the model
  std::optional<DenseUpdate> unembedding;
};
using RequestAdapters = std::vector<RequestAdapter>;  // AdapterId (model/batch.h) is the index

// Returns the updates of an adapter in float32. `scale` multiplies the adapter's own scale. Throws InputError
// if the adapter changes the embedding or experts.
RequestAdapter keep_apart(const Adapter& adapter, float scale, const Config& config);

size_t num_bytes(const RequestAdapters& adapters);
int max_rank(const RequestAdapters& adapters);  // the largest rank of an update; 0 without adapters

// Calls visit(update) for each update of the adapter.
template <typename Visit>
void for_each_update(const RequestAdapter& adapter, const Visit& visit) {
  for (const LayerUpdates& layer : adapter.layers)
    for (const auto* update : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.router})
      if (*update) visit(**update);
  if (adapter.unembedding) visit(*adapter.unembedding);
}

}  // namespace nibble
