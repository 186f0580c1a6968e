// The device works out which drafts of a run are right, and where the next ones begin, from the tokens that the step's rows have chosen.
// backend/right_drafts.h has the rule, and draft_slots() of backend/draft_chain.h does the same on the host. Needs no GPU:
// tests/backend/cuda/host/draft_slots_test.cpp. C++17, for device code.
#pragma once

#include <cstdint>

#include "backend/cuda/sample/sample_input.h"
#include "backend/cuda/step/row_input.h"
#include "backend/right_drafts.h"

namespace nibble::cuda {

// A run of the batch as a draft head sees it. Its rows follow each other, in the step's order on the device.
struct DraftRun {
  int32_t first_row, num_rows;  // no rows: there is no such run
  int32_t num_drafted;          // of these, the last ones
  int32_t next;                 // the token behind the last row; -1: that row chooses it
  int32_t first_output, num_outputs;
  int32_t chain;    // number of the chain that drafts for it; -1: none does
  int32_t is_tree;  // its drafts are a tree (DraftChoices::parents); else a chain
};

// A row of the step, or of a chain, whose slot is filled.
struct DraftSlot {
  int32_t token;  // behind the row
  int32_t chain;  // that begins with this slot; -1: none
};

// Where a chain of drafts begins.
struct ChainStart {
  int32_t position;  // of the last row that is right
  int32_t token;     // that it chose, behind which the drafts stand; -1: it chose none, and there is no chain
};

// The chains of a step, for the step behind it.
struct MadeDrafts {
  const ChainStart* starts;     // [chains]
  const SampleResult* results;  // [drafts, chains]; ids are the head's own
  const int* tokens;            // [draft vocabulary]: the model's ids
};

// Fills in a row of a run that goes on behind a chain: the first has the token that the chain stands behind, the others its drafts. A run
// whose chain does not exist is run in vain, at positions that its pages cover.
constexpr RowInput row_behind(const MadeDrafts& made, int num_chains, RowInput row) {
  const int chain = -1 - row.token, number = -1 - row.position;
  const ChainStart start = made.starts[chain];
  int token = start.token;
  if (number > 0) {
    const int draft = made.results[(number - 1) * num_chains + chain].token;
    token = made.tokens[draft < 0 ? 0 : draft];
  }
  row.token = token < 0 ? 0 : token;
  row.position = start.position + 1 + number;
  return row;
}

// Tells which tokens the rows of a step have chosen.
struct DraftChoices {
  const RowInput* rows;         // [T]
  const int* parents;           // [T], read for trees: the row of the run that each stands behind
  const int* output_rows;       // [outputs], ascending within a run
  const SampleRow* sample;      // [outputs]
  const SampleResult* results;  // [outputs]
};

// The last row of a run whose token is known to be right, and what is behind it.
struct DraftStart {
  int32_t row;     // of the run
  int32_t token;   // behind that row
  bool is_chosen;  // by that row: a chain may begin there
};

// The output of a row of the run that chooses a token; -1: it has none.
constexpr int output_at(const DraftRun& run, const DraftChoices& choices, int row) {
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

// The token behind a row of the run that chose none: the next row's, unless that is another branch of a tree, or the one that the caller
// knows. A last row without either keeps its own: its slot is written again by the step that knows.
constexpr int32_t known_token(const DraftRun& run, const DraftChoices& choices, int row) {
  const int end_of_chain = run.num_rows - (run.is_tree ? run.num_drafted : 0);
  if (row + 1 < end_of_chain) return choices.rows[run.first_row + row + 1].token;
  return run.next >= 0 ? run.next : choices.rows[run.first_row + row].token;
}

// The row of the run that a row stands behind.
constexpr int parent_of_row(const DraftRun& run, const DraftChoices& choices, int row) {
  return run.is_tree ? choices.parents[run.first_row + row] : row - 1;
}
// Says whether the row before a draft chose it, or needs none because nothing else could follow.
constexpr bool fits(const DraftRun& run, const DraftChoices& choices, int row) {
  const int output = output_at(run, choices, parent_of_row(run, choices, row));
  return output < 0 || choices.results[output].token == choices.rows[run.first_row + row].token;
}

// Calls follow(row, next) for each right draft `next`, which stands behind `row`.
template <typename Follow>
constexpr DraftStart draft_start(const DraftRun& run, const DraftChoices& choices, const Follow& follow) {
  const int last_known = run.num_rows - 1 - run.num_drafted;
  int before = last_known;
  const int row = for_right_drafts(
      last_known, last_known + 1, run.num_rows, [&](int i) { return parent_of_row(run, choices, i); },
      [&](int i) { return fits(run, choices, i); },
      [&](int i) {
        follow(before, i);
        before = i;
      });
  const int output = output_at(run, choices, row);
  const bool is_chosen = run.next < 0 && output >= 0 && choices.results[output].token >= 0;
  return {row, is_chosen ? choices.results[output].token : known_token(run, choices, row), is_chosen};
}

}  // namespace nibble::cuda
