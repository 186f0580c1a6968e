// Random adapters for tests of requests that choose one.
#pragma once

#include <vector>

#include "core/numbers/random.h"
#include "model/adapter/request_adapter.h"
#include "model/weights.h"

namespace nibble {

// Returns a random update. In root mean square, updates of rank 1 to 33 are 5 to 25 % of the matrices of the
// random models (tests/golden/random).
inline DenseUpdate random_update(int rank, int rows, int cols, uint64_t seed) {
  DenseUpdate update{rank, std::vector<float>(static_cast<size_t>(rank * cols)),
                     std::vector<float>(static_cast<size_t>(rows * rank))};
  uint64_t n = 0;
  for (float& value : update.a) value = static_cast<float>(random_unit(seed, n++) - 0.5) / 4;
  for (float& value : update.b) value = static_cast<float>(random_unit(seed, n++) - 0.5) / 4;
  return update;
}

// Returns three adapters: the first changes all matrices except experts; the second changes q and v in some
// layers, and the unembedding; the third changes o and the router in all layers.
inline RequestAdapters three_adapters(const Weights& weights) {
  RequestAdapters adapters(3);
  uint64_t seed = 100;
  const auto update_of = [&](const Matrix& matrix, int rank) {
    return random_update(rank, matrix.rows, matrix.cols, ++seed);
  };
  for (RequestAdapter& adapter : adapters) adapter.layers.resize(weights.layers.size());
  for (size_t n = 0; n < weights.layers.size(); ++n) {
    const LayerWeights& layer = weights.layers[n];
    adapters[0].layers[n] = {update_of(layer.q, 4), update_of(layer.k, 4), update_of(layer.v, 4),
                             update_of(layer.o, 4), update_of(layer.router, 4)};
    if (n % 2 == 1) adapters[1].layers[n].q = update_of(layer.q, 17);
    if (n == 0) adapters[1].layers[n].v = update_of(layer.v, 1);
    adapters[2].layers[n].o = update_of(layer.o, 3);
    adapters[2].layers[n].router = update_of(layer.router, 5);
  }
  adapters[0].unembedding = update_of(weights.unembedding, 4);
  adapters[1].unembedding = update_of(weights.unembedding, 33);
  return adapters;
}

// Returns six adapters. The first five change one matrix each in all layers: q, k, v, o, the router. The last
// one changes the unembedding.
inline RequestAdapters adapters_of_one_matrix(const Weights& weights) {
  struct Target {
    Matrix LayerWeights::*matrix;
    std::optional<DenseUpdate> LayerUpdates::*update;
  };
  constexpr Target kTargets[]{{&LayerWeights::q, &LayerUpdates::q},
                              {&LayerWeights::k, &LayerUpdates::k},
                              {&LayerWeights::v, &LayerUpdates::v},
                              {&LayerWeights::o, &LayerUpdates::o},
                              {&LayerWeights::router, &LayerUpdates::router}};
  constexpr int kRank{33};
  RequestAdapters adapters;
  uint64_t seed = 200;
  for (const auto& [matrix, update] : kTargets) {
    RequestAdapter& adapter = adapters.emplace_back();
    for (const LayerWeights& layer : weights.layers) {
      const Matrix& changed = layer.*matrix;
      adapter.layers.emplace_back().*update = random_update(kRank, changed.rows, changed.cols, ++seed);
    }
  }
  const Matrix& unembedding = weights.unembedding;
  adapters.emplace_back().layers.resize(weights.layers.size());
  adapters.back().unembedding = random_update(kRank, unembedding.rows, unembedding.cols, ++seed);
  return adapters;
}

}  // namespace nibble
