// One step as the backend takes it: runs, their output rows, and the drafts that these rows verify.
#pragma once

#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "core/system/clock.h"
#include "engine/draft_tree.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace nibble {

using Sequences = std::unordered_map<RequestId, Sequence>;

// A step that was launched. The page tables of its slices are no longer valid.
struct Launched {
  std::vector<Slice> slices{};
  std::vector<DraftTree> trees{};      // drafts of each slice; empty if no slice has drafts
  std::vector<int> num_prompt_rows{};  // [slice]: number of output rows for prompt log-probabilities
  std::vector<int> output_rows{};      // [slice]: index of its first output row for the answer
  int num_outputs{0};
  int num_rows{0};         // rows of all slices at the launch
  int num_to_draft{0};     // tokens that the draft head or model drafts for each sequence that gets a token
  bool all_draft{true};    // false if some sequence gets a token but no drafts of the head
  bool has_prompt{false};  // some answer had no token before this step, or gets none from it
  double planning_seconds{0};     // time of planning, if the backend idled meanwhile
  Stopwatch clock{};              // started at the launch
  bool has_prompts_alone{false};  // every slice begins within its sequence's prompt

  const DraftTree& tree(size_t slice) const {
    static const DraftTree none;
    return trees.empty() ? none : trees[slice];
  }
  // Called when a sequence ends. Its slices then have no sequence, and their tokens are ignored.
  void forget(RequestId request) {
    for (Slice& slice : slices)
      if (slice.request == request) slice.sequence = nullptr;
  }
};

// Holds the runs of a step and their data while the backend reads them. Until destruction, the drafts of the
// step are appended to the known tokens of their sequences.
class StepBatch {
 public:
  struct Head {  // the backend's draft head, if any
    bool is_there{false};
    int topk{1};
  };

  // Adds the output rows to `step`. `under_way`: the previous step if it has not ended, otherwise null.
  StepBatch(Launched& step, const Launched* under_way, const Head& head);
  ~StepBatch();  // removes the drafts from the sequences
  StepBatch(const StepBatch&) = delete;

  Batch batch() const { return {.runs = runs_}; }

 private:
  explicit StepBatch(Launched& step);  // prepares rows and drafts, but no runs
  void drop_drafts(size_t num_trees);  // removes the drafts of the first trees
  void add_outputs(size_t slice);
  void add_tree(size_t slice, std::span<const TokenId> output);
  Run run_of(size_t slice, size_t first_output, const Head& head);

  Launched& step_;
  std::vector<SampleParams> prompt_rows_;  // prompt rows of all slices
  size_t num_prompt_outputs_{0};           // number of prompt_rows_ in outputs_
  std::vector<OutputRow> outputs_;         // the runs refer to parts of it
  // Only for trees that are not chains: for each row that follows a draft, the answer up to that draft.
  std::deque<std::vector<TokenId>> outputs_then_;
  std::deque<std::vector<int>> parents_;  // storage of DraftedTokens::parents
  std::vector<Run> runs_;
  int num_drafting_{0};
};

}  // namespace nibble
