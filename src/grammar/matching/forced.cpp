#include <algorithm>

#include "grammar/matching/matcher.h"

namespace nibble::grammar {
namespace {

// Limits the result of forced_bytes(). Later calls return the rest of a longer forced text.
constexpr size_t kMaxForcedBytes{256};
// Number of accepted tokens to encode again with the forced bytes; an unfinished pre-token usually has fewer.
constexpr size_t kContextTokens{8};
// Tokens at the end of a forced text are dropped if a longer token might replace them. Such a token is
// assumed to begin in the last kTailTokens tokens or the last kTailBytes bytes, whichever are longer: no
// earlier beginning was ever found (llguidance: docs/fast_forward.md).
constexpr size_t kTailTokens{4}, kTailBytes{7};

}  // namespace

std::string Matcher::forced_bytes() {
  const std::lock_guard lock(grammar_->mutex);
  grammar_->expressions.fuel().fill(kMaskFuel);
  const uint32_t begin = rows_.last();
  std::string forced;
  while (forced.size() < kMaxForcedBytes && !rows_.is_complete(rows_.last())) {
    int only = -1;
    for (int byte = 0; byte < 256; ++byte) {
      if (!rows_.allows(rows_.last(), static_cast<uint8_t>(byte))) continue;
      if (only >= 0) {
        only = -1;
        break;
      }
      only = byte;
    }
    if (only < 0) break;
    NIBBLE_CHECK(rows_.advance(rows_.last(), static_cast<uint8_t>(only)));
    forced += static_cast<char>(only);
  }
  rows_.cut_behind(begin);
  return forced;
}

// Returns whether some token begins with `beginning`, which is the end of the text, and whether the rest of
// that token may follow the text.
bool Matcher::may_run_past(std::string_view beginning) {
  const auto nodes = vocabulary_->nodes();
  size_t begin = 0, end = nodes.size();
  for (const char c : beginning) {
    size_t at = begin;
    while (at < end && nodes[at].byte != static_cast<uint8_t>(c)) at += nodes[at].num_below + 1u;
    if (at >= end) return false;
    begin = at + 1;
    end = begin + nodes[at].num_below;
  }
  // path[n]: the parser's row (Earley set) after n bytes of a path in the tree. One legal path to a leaf
  // suffices: every leaf is a token.
  const uint32_t last_row = rows_.last();
  std::vector<uint32_t> path{last_row};
  for (size_t at = begin; at < end;) {
    const size_t depth = nodes[at].depth - beginning.size();
    rows_.cut_behind(path[depth - 1]);
    path.resize(depth);
    if (!rows_.advance(path[depth - 1], static_cast<uint8_t>(nodes[at].byte))) {
      at += nodes[at].num_below + 1u;
      continue;
    }
    if (nodes[at].token != VocabularyTrie::kNoToken) {
      rows_.cut_behind(last_row);
      return true;
    }
    path.push_back(rows_.last());
    ++at;
  }
  rows_.cut_behind(last_row);
  return false;
}

std::vector<TokenId> Matcher::forced_tokens() {
  const std::string forced = forced_bytes();
  if (forced.empty()) return {};
  const Tokenizer& tokenizer = vocabulary_->tokenizer();
  size_t first = steps_.size();
  while (first > 0 && steps_.size() - first < kContextTokens && steps_[first - 1].token != kNoTokenId)
    --first;
  std::string text;
  std::vector<TokenId> before;
  for (size_t i = first; i < steps_.size(); ++i) {
    before.push_back(steps_[i].token);
    text += tokenizer.bytes(steps_[i].token);
  }
  std::vector<TokenId> tokens = tokenizer.encode(text + forced, SpecialTokens::kOrdinary);
  if (tokens.size() <= before.size() || !std::equal(before.begin(), before.end(), tokens.begin())) return {};
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(before.size()));

  // may_run_past() starts after the forced bytes: advance past these bytes. cut_behind() undoes this later.
  const std::lock_guard lock(grammar_->mutex);
  grammar_->expressions.fuel().fill(kMaskFuel);
  const uint32_t begin = rows_.last();
  NIBBLE_CHECK(advance(forced));
  // ends[i] is the end of token i, as an offset in `forced`.
  std::vector<size_t> ends;
  for (const TokenId token : tokens)
    ends.push_back((ends.empty() ? 0 : ends.back()) + tokenizer.bytes(token).size());
  const size_t tail_begin = tokens.size() > kTailTokens ? ends[tokens.size() - kTailTokens - 1] : 0;
  size_t num_kept = tokens.size();
  for (size_t from = forced.size();
       from-- > std::min(tail_begin, forced.size() - std::min(forced.size(), kTailBytes));)
    if (may_run_past(std::string_view(forced).substr(from)))
      while (num_kept > 0 && ends[num_kept - 1] > from) --num_kept;
  rows_.cut_behind(begin);
  tokens.resize(num_kept);
  return tokens;
}

}  // namespace nibble::grammar
