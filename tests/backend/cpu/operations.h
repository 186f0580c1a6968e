// Models, sequences and tolerances for tests of operations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/activations.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/split_order.h"
#include "core/numbers/e4m3.h"
#include "model/batch.h"
#include "reference/array.h"
#include "tests/backend/cpu/isas.h"
#include "tests/backend/cpu/operands.h"

namespace nibble::cpu {

// Returns the config of a model with one layer. kConfigs have odd widths, 2, 8 and 16 query heads per KV head
// (attention processes 8 at once), and 1, 3 and all experts per token.
inline Config config_of(int hidden, int intermediate, int num_heads, int num_kv_heads, int head_dim,
                        int num_experts, int experts_per_token) {
  Config config;
  config.num_layers = 1;
  config.hidden = hidden;
  config.intermediate = intermediate;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.num_experts = num_experts;
  config.experts_per_token = experts_per_token;
  config.vocab = 100;
  config.layer_kinds = {LayerKind::kFull};
  return config;
}
inline const Config kConfigs[]{config_of(160, 224, 6, 3, 64, 8, 3), config_of(96, 32, 8, 1, 32, 4, 4),
                               config_of(32, 64, 16, 1, 16, 5, 1)};

// The error of a float32 sum of n products is at most 2 (n / 4 + 6) 2^-24 of the sum of their magnitudes
// (kernels_test.cpp), which for random signs is about sqrt(n) times the sum itself.
inline double tolerance(int num_products) {
  return 2 * (num_products / 4.0 + 6) * 0x1p-24 * std::sqrt(num_products);
}

// Compares rows as vectors: |actual - expected| <= tolerance |expected|. Poisoned values fail.
inline void expect_near(View<const float, 2> actual, View<const float, 2> expected, double tolerance,
                        const char* what) {
  for (ptrdiff_t t = 0; t < expected.shape[0]; ++t) {
    double error = 0, norm = 0;
    for (ptrdiff_t i = 0; i < expected.shape[1]; ++i) {
      error += std::pow(double{actual(t, i)} - expected(t, i), 2);
      norm += std::pow(expected(t, i), 2);
    }
    ASSERT_GT(norm, 0) << what << ", row " << t;
    ASSERT_LE(std::sqrt(error), tolerance * std::sqrt(norm))
        << what << ", row " << t << " of " << expected.shape[0];
  }
}

inline View<const float, 2> rows_view(const std::vector<float>& elements, ptrdiff_t num_rows) {
  return {elements.data(), {num_rows, std::ssize(elements) / num_rows}};
}

// Converts the first `width` elements of rows from split to natural order.
inline reference::Array<float, 2> in_natural_order(View<const float, 2> split, ptrdiff_t num_rows,
                                                   ptrdiff_t width) {
  reference::Array<float, 2> natural({num_rows, width});
  for (ptrdiff_t t = 0; t < num_rows; ++t)
    for (ptrdiff_t i = 0; i < width; ++i) natural.view()(t, i) = split(t, split_index(i));
  return natural;
}

// A run of num_tokens tokens of one sequence from `first_position` on. The page ids are in descending order.
struct OneSequence {
  OneSequence(const Config& config, int num_tokens, int first_position)
      : tokens(num_tokens), pages((first_position + num_tokens) / kPageTokens + 1) {
    for (int i = 0; i < num_tokens; ++i) tokens[i] = (7 * i + 3) % config.vocab;
    for (size_t page = 0; page < pages.size(); ++page)
      pages[page] = PageId{static_cast<uint32_t>(pages.size() - 1 - page)};
    run = {.tokens = tokens,
           .first_position = first_position,
           .full = {pages},
           .sliding = {pages},
           .outputs = {}};
    batch = {.runs = {&run, 1}};
  }
  int num_pages() const { return static_cast<int>(pages.size()); }

  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  Run run;
  Batch batch;
};

class Operations : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool pool_{2};
  const Machine machine_{choose_kernels(GetParam()), pool_};

  // Makes activations whose outputs are poisoned, except for the padding of rows.
  Activations activations(const Config& config, int num_rows, bool int8 = false) const {
    Activations a =
        make_activations(config, num_rows, pool_.num_threads(), {.int8 = int8, .float_experts = !int8});
    for (const View<float, 2>& view : {a.x, a.router_logits, a.chosen_weights, a.logits})
      std::fill_n(view.data, view.shape[0] * view.stride[0], kPoison);
    return a;
  }
};

inline float element_of(const LayerKv& kv, const std::byte* page, int position, int d) {
  const std::byte* row = page + position % kPageTokens * kv.row_bytes();
  return kv.format == Format::kE4m3 ? to_float(reinterpret_cast<const E4m3*>(row)[d])
                                    : to_float(reinterpret_cast<const Bf16*>(row)[d]);
}

// The experts that each token chooses: different experts per token, or the same for all tokens.
enum class Crowding { kSpread, kAllTheSame };

}  // namespace nibble::cpu
