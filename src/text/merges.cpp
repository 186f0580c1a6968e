#include "text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "core/errors/check.h"
#include "core/numbers/random.h"

namespace nibble {
namespace {

// Pieces up to this length are merged by a linear scan. For usual pieces a scan is faster than a heap: its
// n^2 steps touch one or two cache lines and have no branches. Few pieces are near the limit: lines of
// dashes, for example.
constexpr size_t kMaxScannedBytes{64};

uint64_t pair_of(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Merges::Merges(size_t max_merges, const std::array<TokenId, 256>& byte_tokens)
    : slots_(std::bit_ceil(2 * max_merges + 1)), byte_tokens_(byte_tokens) {}

bool Merges::add(TokenId left, TokenId right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  size_t at = mix64(pair) & (slots_.size() - 1);
  for (; slots_[at].pair != UINT64_MAX; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].pair == pair) return false;
  slots_[at] = {pair, merge};
  ++num_merges_;
  NIBBLE_CHECK(2 * num_merges_ <= slots_.size(), "{} merges", num_merges_);
  return true;
}

Merge Merges::find(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = mix64(pair) & (slots_.size() - 1);
  while (slots_[at].pair != pair) {
    if (slots_[at].pair == UINT64_MAX) return {};
    at = (at + 1) & (slots_.size() - 1);
  }
  return slots_[at].merge;
}

void Merges::apply(std::string_view piece, std::vector<TokenId>& ids) const {
  if (piece.size() <= kMaxScannedBytes)
    apply_by_scan(piece, ids);
  else
    apply_by_heap(piece, ids);
}

void Merges::apply_by_scan(std::string_view piece, std::vector<TokenId>& ids) const {
  std::array<TokenId, kMaxScannedBytes> parts;
  // merges[i]: the merge of parts i and i + 1; unused for the last part.
  std::array<Merge, kMaxScannedBytes> merges;
  size_t num_parts = piece.size();
  for (size_t i = 0; i < num_parts; ++i) parts[i] = byte_token(piece[i]);
  for (size_t i = 0; i + 1 < num_parts; ++i) merges[i] = find(parts[i], parts[i + 1]);

  const auto by_priority = [](const Merge& a, const Merge& b) { return a.priority < b.priority; };
  while (num_parts > 1) {
    const auto best = std::min_element(merges.begin(), merges.begin() + num_parts - 1, by_priority);
    if (best->priority == Merge::kNever) break;
    const auto at = static_cast<size_t>(best - merges.begin());
    parts[at] = best->result;
    std::copy(parts.begin() + at + 2, parts.begin() + num_parts, parts.begin() + at + 1);
    std::copy(merges.begin() + at + 1, merges.begin() + num_parts - 1, merges.begin() + at);
    --num_parts;
    if (at + 1 < num_parts) merges[at] = find(parts[at], parts[at + 1]);
    if (at > 0) merges[at - 1] = find(parts[at - 1], parts[at]);
  }
  ids.insert(ids.end(), parts.begin(), parts.begin() + num_parts);
}

// The parts are a linked list, indexed by the position of their first byte; a heap has the pairs that can
// merge. Part::merge is a part's merge with the next part. It is empty for the last part, and for a part that
// was merged into the previous one. A heap entry is skipped if its part's merge has changed since the push.
void Merges::apply_by_heap(std::string_view piece, std::vector<TokenId>& ids) const {
  NIBBLE_CHECK(piece.size() < UINT32_MAX, "a piece of {} bytes", piece.size());
  const auto end = static_cast<uint32_t>(piece.size());
  struct Part {
    uint32_t previous, next;
    TokenId id;
    Merge merge;
  };
  std::vector<Part> parts(end);
  // An entry is a priority (high bits) and a position (low bits), so entries sort in the order of merging.
  std::vector<uint64_t> pairs;
  const auto entry = [&](uint32_t at) { return uint64_t{parts[at].merge.priority} << 32 | at; };

  for (uint32_t at = 0; at < end; ++at) parts[at] = {at - 1, at + 1, byte_token(piece[at]), {}};
  for (uint32_t at = 0; at + 1 < end; ++at) {
    parts[at].merge = find(parts[at].id, parts[at + 1].id);
    if (parts[at].merge.priority != Merge::kNever) pairs.push_back(entry(at));
  }
  std::priority_queue heap(std::greater<>{}, std::move(pairs));

  const auto renew = [&](uint32_t at) {
    Part& part = parts[at];
    part.merge = part.next == end ? Merge{} : find(part.id, parts[part.next].id);
    if (part.merge.priority != Merge::kNever) heap.push(entry(at));
  };
  while (!heap.empty()) {
    const uint64_t best = heap.top();
    heap.pop();
    const auto at = static_cast<uint32_t>(best);
    if (best != entry(at)) continue;
    Part& part = parts[at];
    Part& gone = parts[part.next];
    part.id = part.merge.result;
    gone.merge = {};
    part.next = gone.next;
    if (part.next != end) parts[part.next].previous = at;
    renew(at);
    if (at > 0) renew(part.previous);
  }
  for (uint32_t at = 0; at != end; at = parts[at].next) ids.push_back(parts[at].id);
}

}  // namespace nibble
