// Speculative decoding for the engine's loop: chooses the drafts that a step verifies, counts accepted
// drafts, learns from the step's cost, and drafts for the next step. Does nothing without drafters.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "backend/backend.h"
#include "engine/engine_options.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_batch.h"
#include "speculative/speculator.h"

namespace nibble {

class Drafting {
 public:
  using Trees = std::unordered_map<RequestId, DraftTree>;

  // Throws InputError if the backend does not support the options.
  Drafting(const EngineOptions& options, const Backend& backend);

  bool is_on() const { return speculator_.has_value(); }
  // Whether a step is launched before its drafts, and the acceptance of earlier drafts, are known.
  bool launches_before_drafts() const { return launches_before_drafts_; }
  const speculative::DraftCounts& counts() const { return counts_; }

  // Whether the next step must wait for the tokens of the step under way, because drafts may follow them.
  bool waits_for_tokens(const Launched& under_way) const;
  // Chooses drafts for the sequences of the next step and sets each sequence's number of drafts in `room`.
  // `under_way`: the previous step if it has not ended; otherwise null.
  Trees plan(const DraftRoom& room, Sequences& sequences, const Launched* under_way);
  // Returns the number of tokens per sequence that the last planned step drafts for the step after it.
  int num_to_draft() const { return speculator_ ? speculator_->num_to_draft() : 0; }
  StepBatch::Head head() const;

  // Gives the drafters the sequence's tokens from index `num_known` on, and `made`, the drafts of the draft
  // head.
  void add_tokens(RequestId id, const Sequence& sequence, size_t num_known, const Drafts& made);
  void count(int num_drafts, int num_accepted) { counts_.add(num_drafts, num_accepted); }
  // Fills in a request's drafts in `next`, which was launched before the drafts were made; ignores surplus
  // drafts.
  static void fill_in(RequestId id, const Drafts& made, Launched& next);
  // Offers a finished answer to later requests for drafting. Does nothing if memory runs out.
  void keep_answer(const Sequence& sequence);
  void remove(RequestId id) { tracks_.erase(id); }

  // Lets the draft model, if any, draft for the sequences that got a token in `step`. Returns the time that
  // the draft model spent on reading tokens that it had not read yet.
  speculative::DraftModel::CatchUp draft(const Launched& step);
  struct Ended {
    const Launched& step;
    const StepReport& report;
    int num_tokens;        // tokens that the step added to answers
    const Launched* next;  // the step launched after `step`, or null
    speculative::DraftModel::CatchUp catch_up;
  };
  void learn(const Ended& ended);

 private:
  void consider(const Launched& next);

  std::optional<speculative::Speculator> speculator_;
  bool launches_before_drafts_;
  int max_batch_tokens_;
  // The drafters' state for each sequence whose answer has at least one token.
  std::unordered_map<RequestId, std::unique_ptr<speculative::Track>> tracks_;
  speculative::DraftCounts counts_;
};

}  // namespace nibble
