#include "text/merges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/numbers/random.h"

namespace nibble {
namespace {

std::array<TokenId, 256> bytes_as_ids() {
  std::array<TokenId, 256> ids;
  for (size_t byte = 0; byte < 256; ++byte) ids[byte] = static_cast<TokenId>(byte);
  return ids;
}

using Rules = std::map<std::pair<TokenId, TokenId>, Merge>;

Merges merges_of(const Rules& rules) {
  Merges merges(rules.size(), bytes_as_ids());
  for (const auto& [pair, merge] : rules) EXPECT_TRUE(merges.add(pair.first, pair.second, merge));
  return merges;
}

std::vector<TokenId> tokens_by(const Merges& merges, std::string_view piece) {
  std::vector<TokenId> ids;
  merges.apply(piece, ids);
  return ids;
}

// Applies the definition of BPE naively: finds the leftmost pair with the lowest priority number, merges it,
// and starts again.
std::vector<TokenId> by_definition(const Rules& rules, std::string_view piece) {
  std::vector<TokenId> ids;
  for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
  while (true) {
    Merge best;
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      const auto rule = rules.find({ids[at], ids[at + 1]});
      if (rule == rules.end() || rule->second.priority >= best.priority) continue;
      best = rule->second;
      best_at = at;
    }
    if (best.priority == Merge::kNever) return ids;
    ids[best_at] = best.result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best_at) + 1);
  }
}

TEST(Merges, TheLowestPriorityNumberMergesFirst) {
  const Merges merges = merges_of({{{'a', 'b'}, {1, 256}}, {{'b', 'c'}, {0, 257}}, {{'a', 257}, {2, 258}}});
  EXPECT_THAT(tokens_by(merges, "abc"), testing::ElementsAre(258));
  EXPECT_THAT(tokens_by(merges, "abd"), testing::ElementsAre(256, 'd'));
}

TEST(Merges, OfEqualPairsTheLeftmostMergesFirst) {
  const Merges merges = merges_of({{{'a', 'a'}, {0, 256}}});
  EXPECT_THAT(tokens_by(merges, "aaaaa"), testing::ElementsAre(256, 256, 'a'));
}

TEST(Merges, APairIsTakenOnce) {
  Merges merges(2, bytes_as_ids());
  EXPECT_TRUE(merges.add('a', 'b', {0, 256}));
  EXPECT_FALSE(merges.add('a', 'b', {1, 257}));
  EXPECT_TRUE(merges.add('b', 'a', {2, 258}));
}

// Priorities are random and independent of ids, as in some files. Merge results collide, so several pairs
// make the same token. Short and long pieces run different code.
TEST(Merges, ShortAndLongPiecesFollowTheDefinition) {
  size_t num_merged = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    uint64_t counter = 0;
    const auto random = [&](uint64_t below) { return random_bits(seed, counter++) % below; };
    const uint64_t num_letters = 1 + random(4), num_tokens = 1 + random(40);
    const auto any_token = [&] {
      const uint64_t token = random(num_letters + num_tokens);
      return static_cast<TokenId>(token < num_letters ? 'a' + token : 256 + token - num_letters);
    };
    Rules rules;
    const uint64_t num_priorities = 1 + random(200);
    for (uint64_t i = 0; i < 200; ++i)
      rules[{any_token(), any_token()}] = {static_cast<uint32_t>(random(num_priorities)),
                                           static_cast<TokenId>(256 + random(num_tokens))};
    const Merges merges = merges_of(rules);
    for (const size_t num_bytes : {1, 2, 3, 7, 63, 64, 65, 66, 200, 1000}) {
      std::string piece;
      while (piece.size() < num_bytes) piece += static_cast<char>('a' + random(num_letters));
      const auto expected = by_definition(rules, piece);
      num_merged += num_bytes - expected.size();
      ASSERT_EQ(tokens_by(merges, piece), expected) << "seed " << seed << ", " << piece;
    }
  }
  EXPECT_GT(num_merged, 10'000u);  // otherwise the test compares too little
}

}  // namespace
}  // namespace nibble
