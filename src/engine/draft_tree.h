// The drafts of one sequence in a step, and the rows that check them. Row 0 stands behind the tokens that are known and is not part of
// this; each further one behind some of the drafts, and chooses its token as if these had come: with the bans, penalties and the mask of
// that place. Mostly the drafts are a chain; where the backend takes trees, several may stand behind one token.
//
// Tokens that a constraint forces are drafts that are certain, where the draft before them is right. They need no row of their own; where
// log-probabilities are wanted they have one, as all tokens then.
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
    int draft{0};  // that it stands behind, as do those that lead to this one
    SampleParams sample{};
    std::unique_ptr<AllowedTokens> allowed{};  // null: all
  };
  std::vector<TokenId> drafts{};
  std::vector<int> parents{};  // the draft that each stands behind, -1: the known tokens
  std::vector<Row> rows{};     // ascending

  // Leaves the first drafts.
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
  // The drafts that lead to one, itself the last.
  std::vector<TokenId> drafts_to(int draft) const {
    std::vector<TokenId> path;
    for (; draft >= 0; draft = parents[static_cast<size_t>(draft)])
      path.push_back(drafts[static_cast<size_t>(draft)]);
    std::reverse(path.begin(), path.end());
    return path;
  }
  // Leaves these drafts, each of which stands behind the one before it, and their rows. Returns what these and row 0 gave, of the `tokens`
  // that all rows gave.
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
