// A step of the engine, and what the backend is told of it: the runs, their output rows, and the drafts that these check.
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
  std::vector<DraftTree> trees{};                    // of each slice
  std::vector<int> num_prompt_rows{};                // for each slice: output rows before that of its token
  std::unordered_map<RequestId, int> output_rows{};  // those of sequences that get a token
  int num_outputs{0};
  int num_rows{0};             // of all slices when it was launched
  int num_to_draft{0};         // tokens that a draft head makes for each sequence with a token
  bool all_draft{true};        // each sequence with a token asks for these
  bool has_prompt{false};      // some sequence has no token yet, or has no one from this step
  double planning_seconds{0};  // in which the backend had nothing to do
  Stopwatch clock{};           // started with the launch
  // No sequence has a row behind its prompt.
  bool has_prompts_alone{false};
};

// The runs of a step, and what they refer to while the backend reads them. Its drafts stand behind the known tokens of their sequences
// meanwhile.
class StepBatch {
 public:
  // The backend's draft head, if it has one.
  struct Head {
    bool is_there{false};
    int topk{1};
  };

  // Says in `step` which output rows are whose. `under_way`: the step before it, where that has not ended.
  StepBatch(Launched& step, Sequences& sequences, const Launched* under_way, const Head& head);
  ~StepBatch();  // takes the drafts away again
  StepBatch(const StepBatch&) = delete;

  Batch batch() const { return {.runs = runs_}; }

 private:
  StepBatch(Launched& step, Sequences& sequences);  // without runs
  void drop_drafts(size_t num_slices);              // of the first slices
  void add_outputs(size_t slice);
  void add_tree(const Slice& slice, const DraftTree& tree, std::span<const TokenId> output);
  Run run_of(size_t slice, size_t first_output, const Launched* under_way, const Head& head);

  Launched& step_;
  Sequences& sequences_;
  std::vector<std::vector<SampleParams>> prompt_rows_;  // of each slice
  std::vector<OutputRow> outputs_;                      // in the order of the runs, which hold spans of it
  std::deque<std::vector<TokenId>> outputs_then_;       // behind drafts of trees
  std::deque<std::vector<int>> parents_;                // of trees
  std::vector<Run> runs_;
  int num_drafting_{0};
};

}  // namespace nibble
