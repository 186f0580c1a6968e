// Sizes a backend and an engine for a context length and a number of concurrent sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "model/config.h"
#include "setup/model/model.h"
#include "setup/settings/resolved_settings.h"

namespace nibble {

struct Capacity {
  int context;        // maximum tokens of one sequence
  int num_sequences;  // concurrent sequences
};

inline constexpr int kDefaultContext{32768};
// Returns --context, or without it the smaller of kDefaultContext and the model's maximum. Throws InputError
// if --context exceeds the model's maximum.
int context_of(const Config& config, const ResolvedSettings& setup);

// Returns the options of `setup` with the number of KV cache pages that the capacity needs.
BackendOptions backend_options(const Config& config, const ResolvedSettings& setup, const Capacity& capacity);
// Like backend_options(), but for a server, within `budgets` (bytes per device). On GPUs the KV cache is as
// large as the budget of the fullest GPU allows. On the host it takes only what the capacity needs, because
// other programs need memory too. If a budget is too small for one sequence, the cache gets the pages of one
// sequence, and load() reports how much memory is missing.
BackendOptions serving_options(const Model& model, const ResolvedSettings& setup, const Capacity& capacity,
                               std::span<const size_t> budgets);
// Returns how many sequences of `context` tokens fit into the budgets at the same time, perhaps 0.
int most_sequences(const Model& model, const ResolvedSettings& setup, int context,
                   std::span<const size_t> budgets);
// Returns how many tokens the KV caches of all ranks hold together if every sequence has `context` tokens.
int64_t kv_tokens(const Config& config, const BackendOptions& options, int context);
EngineOptions engine_options(const ResolvedSettings& setup, const BackendOptions& options,
                             const Capacity& capacity);

}  // namespace nibble
