#include "setup/start/drafters.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/errors/error.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/start/load.h"

namespace nibble {
namespace {

using speculative::SpeculationOptions;

// Maximum tokens per step of the draft model. Longer steps would delay sequences that decode.
constexpr int kMostDraftRows{2048};

// Throws InputError if the vocabularies differ: the same id would mean different tokens.
void check_vocabulary(const Model& drafting, const Model& model, const Places& places) {
  if (drafting.config.vocab != model.config.vocab)
    throw InputError(
        "{} has a vocabulary of {} tokens and {} one of {}: a draft model needs the same vocabulary",
        drafting.source.name, drafting.config.vocab, model.source.name, model.config.vocab);
  const Tokenizer its = open_tokenizer(drafting.source, places),
                  theirs = open_tokenizer(model.source, places);
  for (TokenId id = 0; id < std::max(its.num_tokens(), theirs.num_tokens()); ++id)
    if (its.bytes(id) != theirs.bytes(id))
      throw InputError("token {} differs between {} and {}: a draft model needs the same vocabulary", id,
                       drafting.source.name, model.source.name);
}

// Returns the draft model's options, with a KV cache for all sequences. If that cache exceeds
// kMostDraftCacheBytes, the number of sequences is halved until it fits, down to one.
BackendOptions room_of_draft_model(const Model& drafting, const ResolvedSettings& setup,
                                   const Capacity& capacity) {
  ResolvedSettings own = setup;
  own.options.draft_head = nullptr;
  own.options.adapters = nullptr;  // a draft model drafts in the same way for all adapters
  own.options.max_batch_tokens = std::min(setup.options.max_batch_tokens, kMostDraftRows);
  const int context = std::min(capacity.context, drafting.config.max_context);
  for (int num_sequences = capacity.num_sequences;; num_sequences = (num_sequences + 1) / 2) {
    const BackendOptions room = backend_options(drafting.config, own, {context, num_sequences});
    const size_t bytes = setup.backend->memory.plan(drafting.config, room, setup.own).kv_bytes;
    if (num_sequences == 1 || bytes <= kMostDraftCacheBytes) return room;
  }
}

}  // namespace

void open_drafters(ResolvedSettings& setup, const Model& model, const Capacity& capacity) {
  const SpeculationOptions& asked = setup.speculation;
  if (!asked.draft_head.empty()) setup.options.draft_head = open_draft_head(asked.draft_head, model.config);
  if (asked.draft_model.empty()) return;
  ResolvedSettings own = setup;
  own.adapters.clear();  // --lora applies only to the main model
  Model drafting = open_model_for(asked.draft_model, own);
  check_vocabulary(drafting, model, setup.places);
  BackendOptions room = room_of_draft_model(drafting, setup, capacity);
  setup.draft_model_bytes = needed_bytes(drafting, setup, room);
  setup.draft_model = std::make_shared<const DraftModelSetup>(DraftModelSetup{std::move(drafting), room});
}

void load_draft_model(ResolvedSettings& setup) {
  if (!setup.draft_model) return;
  const auto& [model, room] = *setup.draft_model;
  ResolvedSettings own = setup;
  own.requirements.clear();  // --require applies only to the main model
  own.draft_model_bytes = 0;
  setup.speculation.model = {.backend = load(model, own, room),
                             .num_pages = room.num_pages,
                             .max_batch_tokens = room.max_batch_tokens};
}

}  // namespace nibble
