// Sizes a backend and an engine for a number of sequences and tokens.
#pragma once

#include <cstddef>
#include <span>

#include "engine/engine.h"
#include "model/config.h"
#include "setup/model.h"
#include "setup/resolve.h"

namespace nibble {

struct Capacity {
  int context;        // tokens of one sequence
  int num_sequences;  // at once
};

inline constexpr int kDefaultContext{32768};
// --context, or kDefaultContext if the model was made for as many. Throws InputError beyond what the model was made for.
int context_of(const Config& config, const ResolvedSettings& setup);

// The setup's options with the pages of the KV cache that the capacity takes.
BackendOptions backend_options(const Config& config, const ResolvedSettings& setup, const Capacity& capacity);
// The same for a server, which may take `budgets` (setup/memory.h): the KV cache on devices takes all that is left where least is, with an
// eighth as many pages of sliding layers as of full ones where sequences need fewer, the host's no more than the capacity asks for, since other programs use that memory too. Where a budget is too small for one sequence,
// the pages are that sequence's, and loading says what lacks.
BackendOptions serving_options(const Model& model, const ResolvedSettings& setup, const Capacity& capacity,
                               std::span<const size_t> budgets);
// The most sequences of so many tokens that fit into the budgets together; 0: not even one does.
int most_sequences(const Model& model, const ResolvedSettings& setup, int context,
                   std::span<const size_t> budgets);
EngineOptions engine_options(const ResolvedSettings& setup, const BackendOptions& options,
                             const Capacity& capacity);

}  // namespace nibble
