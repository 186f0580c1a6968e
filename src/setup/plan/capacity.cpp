#include "setup/plan/capacity.h"

#include <algorithm>

#include "core/errors/error.h"
#include "kv/page_counts.h"
#include "setup/plan/memory.h"

namespace nibble {
namespace {

// Limit on the pages of a KV cache: 33.5 million tokens, so that offsets into the page tables fit in 32 bits.
constexpr int kMostPages{1 << 20};

}  // namespace

int context_of(const Config& config, const ResolvedSettings& setup) {
  if (!setup.context) return std::min(kDefaultContext, config.max_context);
  if (*setup.context > config.max_context)
    throw InputError("--context {}: this model supports at most {} tokens", *setup.context,
                     config.max_context);
  return *setup.context;
}

BackendOptions backend_options(const Config& config, const ResolvedSettings& setup,
                               const Capacity& capacity) {
  BackendOptions options = setup.options;
  options.num_threads = num_threads_of(setup, config);
  const int pages = num_pages_for(capacity.context);
  const int num_sequences = (capacity.num_sequences + options.num_kv_caches - 1) / options.num_kv_caches;
  // A sequence needs sliding pages for its window; for the window at the end of its prompt, where the next
  // turn of a chat continues (docs/decisions/0008); for the page that its window has just left; and for the
  // page that it fills next. Pages are freed one step late, so all sequences together also need twice the
  // pages of a step's tokens.
  const int per_sequence = 2 * max_sliding_pages(config.window, 1) + 2;
  // Sliding pages of a sequence that has all tokens of a step.
  const int most = max_sliding_pages(config.window, options.max_batch_tokens);
  const int num_sliding =
      std::min(num_sequences * pages,
               std::max(most, num_sequences * per_sequence + 2 * num_pages_for(options.max_batch_tokens)));
  options.num_pages = num_sequences * pages + num_sliding;
  options.max_table_pages = capacity.num_sequences * (pages + std::min(pages, most));
  return options;
}

BackendOptions serving_options(const Model& model, const ResolvedSettings& setup, const Capacity& capacity,
                               std::span<const size_t> budgets) {
  const BackendOptions options = backend_options(model.config, setup, capacity);
  const auto with_pages = [&](int num_pages) {
    BackendOptions asked = options;
    asked.num_pages = num_pages;
    return asked;
  };
  const auto have_room = [&](int num_pages) {
    return least_room(model, setup, with_pages(num_pages), budgets) >= 0;
  };
  const int least = least_pages(capacity.context, model.config.window);
  int most = setup.backend->device ? kMostPages : options.num_pages;
  if (!have_room(most)) {
    // Binary search: `most` pages do not fit, `fits` pages do. Only the start value `least` is not checked.
    int fits = least;
    while (most - fits > 1) {
      const int middle = fits + (most - fits) / 2;
      (have_room(middle) ? fits : most) = middle;
    }
    most = fits;
  }
  return with_pages(most);
}

int most_sequences(const Model& model, const ResolvedSettings& setup, int context,
                   std::span<const size_t> budgets) {
  const auto fits = [&](int count) {
    return least_room(model, setup, backend_options(model.config, setup, {context, count}), budgets) >= 0;
  };
  int most = 0, too_many = kMostPages / num_pages_for(context) + 1;
  while (too_many - most > 1) {
    const int middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

int64_t kv_tokens(const Config& config, const BackendOptions& options, int context) {
  return options.num_kv_caches * kv_tokens(options.num_pages, context, config.window);
}

EngineOptions engine_options(const ResolvedSettings& setup, const BackendOptions& options,
                             const Capacity& capacity) {
  EngineOptions engine;
  engine.num_kv_caches = options.num_kv_caches;
  engine.num_pages = options.num_pages;
  engine.max_batch_tokens = options.max_batch_tokens;
  engine.max_shared_rows = setup.max_shared_rows;
  engine.itl_target = setup.itl_target;
  engine.max_rows_with_answers = setup.max_rows_with_answers;
  engine.max_sequences = capacity.num_sequences;
  engine.max_context = capacity.context;
  engine.prefix_cache = setup.shares_prefixes;
  engine.speculation = setup.speculation;
  return engine;
}

}  // namespace nibble
