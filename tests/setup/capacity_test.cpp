#include "setup/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble {
namespace {

TEST(Capacity, TheContextIsWhatWasAskedForWithinWhatTheModelWasMadeFor) {
  const Config config = *named_config("gpt-oss-20b");  // 131,072
  EXPECT_EQ(context_of(config, resolve({})), kDefaultContext);
  Settings settings;
  settings.context = 131072;
  EXPECT_EQ(context_of(config, resolve(settings)), 131072);
  settings.context = 131073;
  EXPECT_THAT(error_of([&] { context_of(config, resolve(settings)); }), testing::HasSubstr("at most 131072"));

  Config small = config;
  small.max_context = 100;
  EXPECT_EQ(context_of(small, resolve({})), 100);
}

TEST(Capacity, PagesCoverTheContextOfEverySequence) {
  const Config config = *named_config("gpt-oss-20b");
  const BackendOptions options = backend_options(config, resolve({}), {1025, 3});
  EXPECT_EQ(options.num_full_pages, 3 * 33);  // 1,025 positions take 33 pages of 32
  // A window of 128 and chunks of 512 reach over at most 128 + 512 positions: 20 pages, and one for where they begin.
  EXPECT_GE(options.num_sliding_pages, 3 * 20);
  EXPECT_LE(options.num_sliding_pages, 3 * 21);
  // A short context takes no more pages than it has.
  EXPECT_EQ(backend_options(config, resolve({}), {64, 1}).num_sliding_pages, 2);
}

}  // namespace
}  // namespace nibble
