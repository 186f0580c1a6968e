// One step as the backend gets it: the runs, their output rows, and the drafts that these rows verify.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "core/clock.h"
#include "engine/draft_tree.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace nibble {

using Sequences = std::unordered_map<RequestId, Sequence>;

// A step that was launched. The page tables in its slices are no longer valid.
struct Launched {
  std::vector<Slice> slices{};
  std::vector<DraftTree> trees{};      // one for each slice
  std::vector<int> num_prompt_rows{};  // for each slice: output rows before the row of its token
  // Index of the output row of each sequence that gets a token.
  std::unordered_map<RequestId, int> output_rows{};
  int num_outputs{0};
  int num_rows{0};                // rows of all slices at the launch
  int num_to_draft{0};            // tokens that a draft head drafts for each sequence that gets a token
  bool all_draft{true};           // the head drafts for every sequence that gets a token
  bool has_prompt{false};         // a sequence has no token before this step, or gets none from it
  double planning_seconds{0};     // time of planning while the backend was idle
  Stopwatch clock{};              // started at the launch
  bool has_prompts_alone{false};  // no sequence has a row after its prompt
};

// Holds the runs of a step and their data while the backend reads them. Until destruction, the drafts of the
// step are appended to the known tokens of their sequences.
class StepBatch {
 public:
  struct Head {  // the backend's draft head, if any
    bool is_there{false};
    int topk{1};
  };

  // Fills `step` with output rows. `under_way`: the previous step if it has not ended, otherwise null.
  StepBatch(Launched& step, Sequences& sequences, const Launched* under_way, const Head& head);
  ~StepBatch();  // removes the drafts from the sequences
  StepBatch(const StepBatch&) = delete;

  Batch batch() const { return {.runs = runs_}; }

 private:
  StepBatch(Launched& step, Sequences& sequences);  // builds no runs
  void drop_drafts(size_t num_slices);              // removes the drafts of the first slices
  void add_outputs(size_t slice);
  void add_tree(const Slice& slice, const DraftTree& tree, std::span<const TokenId> output);
  Run run_of(size_t slice, size_t first_output, const Launched* under_way, const Head& head);

  Launched& step_;
  Sequences& sequences_;
  std::vector<std::vector<SampleParams>> prompt_rows_;  // one entry for each slice
  std::vector<OutputRow> outputs_;                      // in the order of `runs_`, which hold spans of this
  // For rows after drafts of a tree: the answer up to and including these drafts.
  std::deque<std::vector<TokenId>> outputs_then_;
  std::deque<std::vector<int>> parents_;  // DraftedTokens::parents, for trees
  std::vector<Run> runs_;
  int num_drafting_{0};
};

}  // namespace nibble
