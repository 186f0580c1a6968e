// The drafts of one sequence in a step, and the output rows that verify them. Row 0, after the known tokens,
// is not stored here. Each other row follows a draft. It samples as if that draft and its ancestors were
// accepted, with the bans, penalties and mask of that case. Drafts form a chain, or a tree if the backend
// supports trees. Tokens that a constraint forces are drafts too. A forced token is accepted if the draft
// before it is. It needs an output row only if log-probabilities are requested.
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
    int draft{0};  // the row samples the token after this draft
    SampleParams sample{};
    std::unique_ptr<AllowedTokens> allowed{};  // null: every token may be sampled
  };
  std::vector<TokenId> drafts{};
  std::vector<int> parents{};  // [draft]: index of its parent draft; -1: it follows the last known token
  std::vector<Row> rows{};     // sorted by Row::draft, ascending

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
  // Returns the drafts from the root of the tree to `draft`, inclusive.
  std::vector<TokenId> drafts_to(int draft) const {
    std::vector<TokenId> path;
    for (; draft >= 0; draft = parents[static_cast<size_t>(draft)])
      path.push_back(drafts[static_cast<size_t>(draft)]);
    std::ranges::reverse(path);
    return path;
  }
  // Keeps only the drafts of `path` (draft indices, each the parent of the next) and their rows. `tokens`
  // holds the results of row 0 and of `rows`. Returns the results of row 0 and of the kept rows.
  std::vector<SampledToken> keep(std::span<const int> path, std::span<SampledToken> tokens) {
    DraftTree kept;
    std::vector<SampledToken> kept_tokens{std::move(tokens.front())};
    for (const int draft : path) {
      kept.parents.push_back(static_cast<int>(kept.drafts.size()) - 1);
      kept.drafts.push_back(drafts[static_cast<size_t>(draft)]);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto at = std::ranges::find(path, rows[i].draft);
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
