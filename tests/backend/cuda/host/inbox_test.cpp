// Tests how messages between ranks are numbered. Needs no GPU.
#include "backend/cuda/ranks/inbox.h"

#include <gtest/gtest.h>

#include <set>

namespace nibble::cuda {
namespace {

// A word left from another sum or another step must not be mistaken for a word of this sum.
TEST(CudaInbox, NoTwoMessagesOfAStepHaveTheSameNumber) {
  Config config;
  config.num_layers = 3;
  config.hidden = 64;
  for (const int max_batch_tokens : {1, 64, 2048, kSumRows, kSumRows + 1, 3 * kSumRows}) {
    const StepNumbers numbers(config, max_batch_tokens);
    std::set<int> all{numbers.last()};
    size_t num_messages = 1;
    for (int half = 0; half < 2 * config.num_layers; ++half)
      for (int launch = 0; launch * kSumRows < max_batch_tokens; ++launch, ++num_messages)
        all.insert(numbers.of_sum(half, launch));
    for (int first = 0; first < max_batch_tokens; first += 64, num_messages += 2)
      all.insert({numbers.of_logits(first), numbers.of_tokens(first)});
    EXPECT_EQ(all.size(), num_messages) << max_batch_tokens;
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_LT(*all.rbegin(), numbers.count());
  }
}

TEST(CudaInbox, OneRankTakesNone) {
  EXPECT_EQ(inbox_bytes(*named_config("gpt-oss-20b"), 1, 8192), 0u);
  // Tagged words of 8 bytes: two slots for 128 rows from each of two senders, or for 18 rows from each of
  // eight. Floats of 4 bytes: every sender's terms for the rows that this rank owns, together 8,192 rows. The
  // rest is flags.
  const Config config = *named_config("gpt-oss-20b");
  EXPECT_NEAR(static_cast<double>(inbox_bytes(config, 2, 8192)), 2880.0 * (2 * 2 * 128 * 8 + 8192 * 4),
              100'000);
  EXPECT_NEAR(static_cast<double>(inbox_bytes(config, 8, 20'000)), 2880.0 * (2 * 8 * 18 * 8 + 8192 * 4),
              100'000);
}

}  // namespace
}  // namespace nibble::cuda
