// Finds on the device which drafts of a run are accepted (right_drafts.h), from the tokens that the step
// sampled, and where new drafts begin. draft_slots() of backend/draft_chain.h does the same on the host. All
// functions here are constexpr, so that tests/backend/cuda/host/draft_slots_test.cpp needs no GPU. CUDA code
// includes this header, so it must compile as C++17.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/right_drafts.h"

namespace nibble::cuda {

// A run (adjacent rows of one sequence), with the data that is needed to accept its drafts and to make new
// ones.
struct DraftRun {
  int32_t first_row, num_rows;        // rows of the step; num_rows = 0: this entry of the array is unused
  int32_t num_drafted;                // the last num_drafted of these rows are drafts
  OptionalIndex next;                 // the token after the last row; none: the step samples it from that row
  int32_t first_output, num_outputs;  // the run's range of ChosenTokens::output_rows
  OptionalIndex chain;                // the chain that makes drafts after the run; none: no drafts are made
  int32_t is_tree;                    // 1: the drafts are a tree (ChosenTokens::parents), 0: a chain
};

// Input of the draft head for a row of the step or of a chain. For this row, the head computes K and V, which
// fill a slot of the head's KV cache.
struct DraftSlot {
  int32_t token;  // the token that follows the row in the text, an input of the head
  int32_t chain;  // chain whose first draft follows `token`; -1: none
};

// Where the drafts of a chain begin.
struct ChainStart {
  int32_t position;  // position of the last accepted row of the run
  int32_t token;     // token sampled from that row, before the first draft; -1: the drafts are not used
};

// The draft chains that a step made, for the next step's embed().
struct MadeDrafts {
  const ChainStart* starts;     // [chains]: where each chain's drafts begin
  const SampleResult* results;  // [drafts, chains]: drafted tokens, as ids of the draft head
  const int* tokens;            // [draft vocabulary]: the model's id for each token id of the head
};

// Returns `row` with the token and the position that its draft chain gives. In the argument, row.position is
// 0 for the token before the drafts, and n for the chain's n-th draft. If the chain's drafts are not used,
// the row gets token 0 and a position for which it has pages; no caller reads the row's results then.
constexpr RowInput row_of_chain(const MadeDrafts& made, int num_chains, RowInput row) {
  const int chain = row.token.index(), number = row.position;
  const ChainStart start = made.starts[chain];
  int token = start.token;
  if (number > 0) {
    const int draft = made.results[(number - 1) * num_chains + chain].token;
    token = made.tokens[draft < 0 ? 0 : draft];
  }
  row.token = TokenInput::of(token < 0 ? 0 : token);
  row.position = start.position + 1 + number;
  return row;
}

struct ChosenTokens {
  const RowInput* rows;         // [T]: rows of the step
  const int* parents;           // [T], only for trees: each row's parent, as an index in the row's run
  const int* output_rows;       // [outputs]: row of the step for each output, ascending within a run
  const SampleRow* sample;      // [outputs]: sampling parameters of each output
  const SampleResult* results;  // [outputs]: the token sampled for each output
};

struct DraftStart {  // the last row of a run whose token is certain (known or accepted): new drafts follow it
  int32_t row;       // index of the row in the run
  int32_t token;     // the token after that row
  bool is_chosen;    // whether the step sampled `token` from this row; only then may a chain follow
};

// Returns the index of the output that samples a token from a row of the run; -1 if no token is sampled from
// the row.
constexpr int output_at(const DraftRun& run, const ChosenTokens& choices, int row) {
  int first = run.first_output, end = run.first_output + run.num_outputs;
  while (first < end) {
    const int middle = first + (end - first) / 2;
    if (choices.output_rows[middle] < run.first_row + row)
      first = middle + 1;
    else
      end = middle;
  }
  const bool is_there = first < run.first_output + run.num_outputs &&
                        choices.output_rows[first] == run.first_row + row &&
                        choices.sample[first].temperature >= 0;
  return is_there ? first : -1;
}

// Returns the token that follows a row from which no token is sampled. This is the next row's token if the
// run has a next row that is not a draft of a tree. Otherwise it is DraftRun::next. If that is unknown too,
// returns the row's own token as a placeholder: a later step computes the draft head's K and V of this row
// again.
constexpr int32_t known_token(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int end_of_chain = run.num_rows - (run.is_tree ? run.num_drafted : 0);
  if (row + 1 < end_of_chain) return choices.rows[run.first_row + row + 1].token.id();
  return run.next.has_value() ? run.next.value() : choices.rows[run.first_row + row].token.id();
}

constexpr int parent_of_row(const DraftRun& run, const ChosenTokens& choices, int row) {
  return run.is_tree ? choices.parents[run.first_row + row] : row - 1;
}
// Returns whether a draft can follow its parent: the step sampled the draft's token from the parent's row, or
// it sampled no token there. It samples none from a row that only one token can follow.
constexpr bool fits(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int output = output_at(run, choices, parent_of_row(run, choices, row));
  return output < 0 || choices.results[output].token == choices.rows[run.first_row + row].token.id();
}

// Calls follow(row, next) for each accepted draft `next`, which follows `row`. Returns where new drafts
// begin.
template <typename Follow>
constexpr DraftStart draft_start(const DraftRun& run, const ChosenTokens& choices, const Follow& follow) {
  const int last_known = run.num_rows - 1 - run.num_drafted;
  int before = last_known;
  const int row = for_right_drafts(
      {last_known, last_known + 1, run.num_rows}, [&](int i) { return parent_of_row(run, choices, i); },
      [&](int i) { return fits(run, choices, i); },
      [&](int i) {
        follow(before, i);
        before = i;
      });
  const int output = output_at(run, choices, row);
  const bool is_chosen = !run.next.has_value() && output >= 0 && choices.results[output].token >= 0;
  return {row, is_chosen ? choices.results[output].token : known_token(run, choices, row), is_chosen};
}

}  // namespace nibble::cuda
