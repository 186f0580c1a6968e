// The drafts of one sequence in a step, and the rows that check them. Row 0 stands behind the tokens that are known and is not part of
// this; each further one behind some of the drafts, and chooses its token as if these had come: with the bans, penalties and the mask of
// that place.
//
// Tokens that a constraint forces are drafts that are certain, where the draft before them is right. They need no row of their own; where
// log-probabilities are wanted they have one, as all tokens then.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/allowed_tokens.h"
#include "model/batch.h"

namespace nibble {

struct DraftPath {
  struct Row {
    int num_before{0};  // drafts that it stands behind
    SampleParams sample{};
    std::unique_ptr<AllowedTokens> allowed{};  // null: all
  };
  std::vector<TokenId> drafts{};
  std::vector<Row> rows{};

  // Leaves the first drafts.
  void cut(int num_drafts) {
    drafts.resize(static_cast<size_t>(num_drafts));
    while (!rows.empty() && rows.back().num_before > num_drafts) rows.pop_back();
  }
};

}  // namespace nibble
