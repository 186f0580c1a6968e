// Finds on the device, from the tokens that a step chose, which drafts of a run are accepted (right_drafts.h)
// and where the next drafts begin, like draft_slots() of backend/draft_chain.h on the host. Tested without a
// GPU: tests/backend/cuda/host/draft_slots_test.cpp. C++17, for device code.
#pragma once

#include <cstdint>

#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/right_drafts.h"

namespace nibble::cuda {

// A run (adjacent rows of one sequence), as needed to accept drafts and to draft.
struct DraftRun {
  int32_t first_row, num_rows;        // rows of the step; num_rows 0: padding of the array, not a run
  int32_t num_drafted;                // the last num_drafted of these rows are drafts
  OptionalIndex next;                 // the token after the last row; none: the step samples it from that row
  int32_t first_output, num_outputs;  // range of ChosenTokens::output_rows that belongs to the run
  OptionalIndex chain;                // index of the chain that drafts for the run
  int32_t is_tree;                    // 1: the drafts are a tree (ChosenTokens::parents), 0: a chain
};

// Input of the draft head for a row of the step or of a chain, whose KV cache slot the head fills.
struct DraftSlot {
  int32_t token;  // the token that follows the row in the text
  int32_t chain;  // index of the chain whose first draft follows `token`; -1: none
};

struct ChainStart {
  int32_t position;  // position of the last accepted row of the run
  int32_t token;     // the token sampled from that row, before the first draft; -1: none, the chain is absent
};

// The draft chains of a step, read by the next step.
struct MadeDrafts {
  const ChainStart* starts;     // [chains]: where the drafts of each chain begin
  const SampleResult* results;  // [drafts, chains]: drafted tokens, as ids of the head
  const int* tokens;            // [draft vocabulary]: the model's id of each of the head's tokens
};

// Fills in a row from a draft chain: the first row of its run gets the token before the drafts, the others
// get the drafts. If the chain is absent, the run is computed in vain, at positions that its pages cover.
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
  const RowInput* rows;         // [T]: the step's rows
  const int* parents;           // [T], read for trees: index in the run of the row that each row follows
  const int* output_rows;       // [outputs]: row of the step of each output, ascending within a run
  const SampleRow* sample;      // [outputs]: sampling parameters of each output
  const SampleResult* results;  // [outputs]: token sampled for each output
};

struct DraftStart {  // the last row of a run whose token is certain
  int32_t row;       // index of the row in the run
  int32_t token;     // the token after that row
  bool is_chosen;    // true: the step sampled `token` from this row, so a chain of drafts may follow it
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

// Returns the token that follows a row without a choice of its own: the next row's, unless that row is a
// draft of a tree; otherwise DraftRun::next or, if unknown, the row's own token. A later step rewrites the
// slot.
constexpr int32_t known_token(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int end_of_chain = run.num_rows - (run.is_tree ? run.num_drafted : 0);
  if (row + 1 < end_of_chain) return choices.rows[run.first_row + row + 1].token.id();
  return run.next.has_value() ? run.next.value() : choices.rows[run.first_row + row].token.id();
}

constexpr int parent_of_row(const DraftRun& run, const ChosenTokens& choices, int row) {
  return run.is_tree ? choices.parents[run.first_row + row] : row - 1;
}
// Whether a draft follows its parent: the parent chose the draft's token, or it had no output to choose with,
// because only this draft can follow.
constexpr bool fits(const DraftRun& run, const ChosenTokens& choices, int row) {
  const int output = output_at(run, choices, parent_of_row(run, choices, row));
  return output < 0 || choices.results[output].token == choices.rows[run.first_row + row].token.id();
}

// Calls follow(row, next) for each accepted draft `next` after `row`. Returns where the next drafts begin.
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
