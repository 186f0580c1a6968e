// Speculation as the engine's loop sees it. The loop calls it at three points: when it plans a step (which
// drafts does it verify?), when it hands out tokens (which drafts were accepted?), and when a step has ended
// (what did it cost, and what is drafted next?). Without drafters every call does nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
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

  // Throws InputError if the backend can't run what the options require.
  Drafting(const EngineOptions& options, const Backend& backend);

  bool is_on() const { return speculator_.has_value(); }
  // Returns whether a step is launched before its drafts are known, and before it is known which earlier
  // drafts are accepted.
  bool launches_before_drafts() const { return launches_before_drafts_; }
  const speculative::DraftCounts& counts() const { return counts_; }

  // Planning.

  // Returns whether the next step must wait for the tokens of the step under way, because drafts may follow
  // them.
  bool waits_for_tokens(const Launched& under_way) const;
  // Chooses the drafts for the sequences that have a place in the next step, and sets their number in `room`.
  // `under_way`: the previous step if it has not ended; otherwise null.
  Trees plan(const DraftRoom& room, Sequences& sequences, const Launched* under_way);
  // Number of tokens that the step planned last must draft per sequence, for the step after it.
  int num_to_draft() const { return speculator_ ? speculator_->num_to_draft() : 0; }
  StepBatch::Head head() const;

  // Handing out tokens.

  // Records the tokens that a sequence got after its first `num_known` ones, and the drafts `made` by the
  // backend's draft head, which follow some of them.
  void add_tokens(RequestId id, const Sequence& sequence, size_t num_known, const Drafts& made);
  void count(int num_drafts, int num_accepted) { counts_.add(num_drafts, num_accepted); }
  // Fills the drafts of a request into `next`, which was launched before they were known. If `next` has fewer
  // drafts than were made, it gets the first ones.
  static void fill_in(RequestId id, const Drafts& made, Launched& next);
  // Offers a finished answer to later requests for drafting. Does nothing if memory runs out.
  void keep_answer(const Sequence& sequence);
  void remove(RequestId id) { tracks_.erase(id); }

  // The end of a step.

  // Lets the draft model, if any, draft for the sequences that got a token. Returns the time it spent on text
  // that it had not read.
  speculative::DraftModel::CatchUp draft(const Launched& step);
  struct Ended {
    const Launched& step;
    const StepReport& report;
    int num_tokens;        // that the step gave
    const Launched* next;  // the step launched after it, or null
    speculative::DraftModel::CatchUp catch_up;
  };
  void learn(const Ended& ended);

 private:
  void consider(const Launched& next);

  std::optional<speculative::Speculator> speculator_;
  bool launches_before_drafts_;
  int max_batch_tokens_;
  // Tracks of the sequences whose answer has at least one token.
  std::unordered_map<RequestId, std::unique_ptr<speculative::Track>> tracks_;
  speculative::DraftCounts counts_;
};

}  // namespace nibble
