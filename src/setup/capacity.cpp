#include "setup/capacity.h"

#include <algorithm>

#include "core/error.h"
#include "kv/page_table.h"

namespace nibble {

int context_of(const Config& config, const ResolvedSettings& setup) {
  if (!setup.context) return std::min(kDefaultContext, config.max_context);
  if (*setup.context > config.max_context)
    throw InputError("--context {}: the model was made for at most {}", *setup.context, config.max_context);
  return *setup.context;
}

BackendOptions backend_options(const Config& config, const ResolvedSettings& setup,
                               const Capacity& capacity) {
  BackendOptions options = setup.options;
  const int pages = num_pages_for(capacity.context);
  options.num_full_pages = capacity.num_sequences * pages;
  options.num_sliding_pages =
      capacity.num_sequences * std::min(pages, max_sliding_pages(config.window, options.max_batch_tokens));
  return options;
}

EngineOptions engine_options(const ResolvedSettings& setup, const BackendOptions& options,
                             const Capacity& capacity) {
  EngineOptions engine;
  engine.num_full_pages = options.num_full_pages;
  engine.num_sliding_pages = options.num_sliding_pages;
  engine.max_batch_tokens = options.max_batch_tokens;
  engine.max_sequences = capacity.num_sequences;
  engine.max_context = capacity.context;
  engine.prefix_cache = setup.shares_prefixes;
  return engine;
}

}  // namespace nibble
