// The drafts of one sequence in a step, and the output rows that verify them. Row 0 comes after the known
// tokens and is not stored here. Every further row comes after a draft and samples as if that draft and its
// ancestors were accepted: with the bans, penalties and mask of that place. Usually the drafts form a chain;
// if the backend takes trees, several drafts may follow one token.
//
// Tokens forced by a constraint are drafts that are certain once the draft before them is accepted. They need
// no output row, except if log-probabilities are wanted: then every token has one.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/allowed_tokens.h"
#include "model/batch.h"

namespace nibble {

struct DraftTree {
  struct Row {
    // The draft that this row comes after: its context ends with that draft.
    int draft{0};
    SampleParams sample{};
    std::unique_ptr<AllowedTokens> allowed{};  // null: all tokens
  };
  std::vector<TokenId> drafts{};
  std::vector<int> parents{};  // the draft before each one, -1: the known tokens
  std::vector<Row> rows{};     // ascending by draft

  // Keeps only the first `num_drafts` drafts, and their rows.
  void cut(int num_drafts) {
    drafts.resize(static_cast<size_t>(num_drafts));
    parents.resize(static_cast<size_t>(num_drafts));
    while (!rows.empty() && rows.back().draft >= num_drafts) rows.pop_back();
  }
  bool is_chain() const {
    for (size_t i = 0; i < parents.size(); ++i)
      if (parents[i] != static_cast<int>(i) - 1) return false;
    return true;
  }
  // Returns the path of drafts that ends in `draft`.
  std::vector<TokenId> drafts_to(int draft) const {
    std::vector<TokenId> path;
    for (; draft >= 0; draft = parents[static_cast<size_t>(draft)])
      path.push_back(drafts[static_cast<size_t>(draft)]);
    std::reverse(path.begin(), path.end());
    return path;
  }
  // Keeps only the drafts of `path`, where each draft follows the previous one, and their rows. `tokens`: the
  // results of row 0, then of all rows. Returns the results of row 0 and of the rows kept.
  std::vector<SampledToken> keep(std::span<const int> path, std::span<SampledToken> tokens) {
    DraftTree kept;
    std::vector<SampledToken> kept_tokens{std::move(tokens.front())};
    for (const int draft : path) {
      kept.parents.push_back(static_cast<int>(kept.drafts.size()) - 1);
      kept.drafts.push_back(drafts[static_cast<size_t>(draft)]);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto at = std::find(path.begin(), path.end(), rows[i].draft);
      if (at == path.end()) continue;
      rows[i].draft = static_cast<int>(at - path.begin());
      kept.rows.push_back(std::move(rows[i]));
      kept_tokens.push_back(std::move(tokens[i + 1]));
    }
    *this = std::move(kept);
    return kept_tokens;
  }
};

}  // namespace nibble
