// Determines on the device which drafts of a run are accepted, and where the next drafts begin, from the
// tokens that the step's rows have chosen. backend/right_drafts.h states the rule; draft_slots() of
// backend/draft_chain.h does the same on the host. Needs no GPU:
// tests/backend/cuda/host/draft_slots_test.cpp. C++17, for device code.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/right_drafts.h"

namespace nibble::cuda {

// A run of the batch as a draft head sees it. Its rows are consecutive, in the step's order on the device.
struct DraftRun {
  int32_t first_row, num_rows;  // num_rows 0: padding, not a run
  int32_t num_drafted;          // the last num_drafted of these rows are drafts
  OptionalIndex next;           // the token after the last row; none: the last row chooses it
  int32_t first_output, num_outputs;
  OptionalIndex chain;  // the chain that drafts for the run
  int32_t is_tree;      // whether its drafts are a tree (ChosenTokens::parents) instead of a chain
};

// A row of the step, or of a chain, whose slot is filled.
struct DraftSlot {
  int32_t token;  // the token after the row
  int32_t chain;  // the chain that begins with this slot; -1: none
};

// Where a chain of drafts begins.
struct ChainStart {
  int32_t position;  // position of the last accepted row
  int32_t token;     // the token it chose, which the drafts follow; -1: none, and the chain does not exist
};

// The chains of a step, for the next step.
struct MadeDrafts {
  const ChainStart* starts;     // [chains]
  const SampleResult* results;  // token ids are the head's own
  const int* tokens;            // [draft vocabulary]: token ids of the model
};

// Fills in a row from a draft chain: the first row of its run gets the token before the drafts, the others
// get the drafts. If the chain does not exist, the run is computed in vain, at positions that its pages
// cover.
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

// The tokens that the rows of a step have chosen.
struct ChosenTokens {
  const RowInput* rows;         // [T]
  const int* parents;           // [T], read for trees: the row of the run that each row follows
  const int* output_rows;       // [outputs], ascending within a run
  const SampleRow* sample;      // [outputs]
  const SampleResult* results;  // [outputs]
};

// The last row of a run whose token is known to be right, and the token after it.
struct DraftStart {
  int32_t row;     // index in the run
  int32_t token;   // the token after that row
  bool is_chosen;  // the row itself chose the token, so a chain may begin there
};

// Returns the output in which a row of the run chooses a token; -1 if it chooses none.
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

// Returns the token after a row of the run that chose none: the next row's token, unless the row or the next
// row is a draft of a tree; otherwise DraftRun::next. If `next` is not set either, returns the row's own
// token: the step that knows the next token rewrites the row's slot.
constexpr int32_t known_token(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int end_of_chain = run.num_rows - (run.is_tree ? run.num_drafted : 0);
  if (row + 1 < end_of_chain) return choices.rows[run.first_row + row + 1].token.id();
  return run.next.has_value() ? run.next.value() : choices.rows[run.first_row + row].token.id();
}

// Returns the row of the run that a row follows.
constexpr int parent_of_row(const DraftRun& run, const ChosenTokens& choices, int row) {
  return run.is_tree ? choices.parents[run.first_row + row] : row - 1;
}
// Whether the row that a draft follows chose the draft's token, or chose none because only this draft can
// follow.
constexpr bool fits(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int output = output_at(run, choices, parent_of_row(run, choices, row));
  return output < 0 || choices.results[output].token == choices.rows[run.first_row + row].token.id();
}

// Calls follow(row, next) for each accepted draft `next`, which follows `row`. Returns where the next drafts
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
