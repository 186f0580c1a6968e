#include "backend/cpu/activations.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/split_order.h"

namespace nibble::cpu {
namespace {

struct Arena {
  std::byte* base{nullptr};
  size_t used{0};

  template <typename T, size_t rank>
  View<T, static_cast<int>(rank)> take(std::array<ptrdiff_t, rank> shape) {
    size_t num_elements = 1;
    for (const ptrdiff_t extent : shape) num_elements *= extent;
    T* data = base ? reinterpret_cast<T*>(base + used) : nullptr;
    used += (num_elements * sizeof(T) + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
    return {data, shape};
  }
};

Activations lay_out(const Config& c, ptrdiff_t max_rows, ptrdiff_t num_threads, const ActivationKinds& kinds,
                    Arena& arena) {
  const ptrdiff_t chosen = max_rows * c.experts_per_token, half = c.head_dim / 2;
  const ptrdiff_t q_width = ptrdiff_t{1} * c.num_heads * c.head_dim;
  const ptrdiff_t output_rows = std::min<ptrdiff_t>(kOutputRows, max_rows);
  Activations a;
  a.x = arena.take<float, 2>({max_rows, c.hidden});
  a.normed = arena.take<float, 2>({max_rows, padded(c.hidden)});
  a.cosines = arena.take<float, 2>({max_rows, half});
  a.sines = arena.take<float, 2>({max_rows, half});
  a.q = arena.take<float, 3>({max_rows, c.num_heads, padded(c.head_dim)});
  a.parts = arena.take<float, 3>({kParts, c.num_heads, 2 + padded(c.head_dim)});
  a.attended = arena.take<float, 2>({max_rows, padded(q_width)});
  a.router_logits = arena.take<float, 2>({max_rows, c.num_experts});
  a.chosen = arena.take<int, 2>({max_rows, c.experts_per_token});
  a.chosen_weights = arena.take<float, 2>({max_rows, c.experts_per_token});
  if (kinds.int8) {
    a.normed_q8 = arena.take<Q8Block, 2>({chosen, c.hidden / kBlock});
    a.attended_q8 = arena.take<Q8Block, 2>({max_rows, q_width / kBlock});
    a.gated_q8 = arena.take<Q8Block, 2>({chosen, c.intermediate / kBlock});
  }
  if (kinds.float_experts) a.gated = arena.take<float, 2>({chosen, padded(c.intermediate)});
  a.down_panels = arena.take<float, 3>({num_threads, chosen, kMaxPanelRows});
  if (kinds.adapter_rank > 0)
    a.low_rank = arena.take<float, 3>({max_rows, kMatricesAtOnce, kinds.adapter_rank});
  a.logits = arena.take<float, 2>({output_rows, c.vocab});
  return a;
}

}  // namespace

size_t activations_bytes(const Config& config, int max_rows, int num_threads, const ActivationKinds& kinds) {
  Arena arena;
  lay_out(config, max_rows, num_threads, kinds, arena);
  return arena.used;
}

Activations make_activations(const Config& config, int max_rows, int num_threads,
                             const ActivationKinds& kinds) {
  Buffer storage(activations_bytes(config, max_rows, num_threads, kinds));
  std::memset(storage.data(), 0,
              storage.bytes());  // padding to whole blocks must be zero
  Arena arena{.base = storage.data()};
  Activations a = lay_out(config, max_rows, num_threads, kinds, arena);
  a.storage = std::move(storage);
  return a;
}

}  // namespace nibble::cpu
