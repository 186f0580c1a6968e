#include "harmony/control_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {
namespace {

using testing::UnorderedElementsAre;

TEST(ControlTokens, HaveTheIdsOfGptOss) {
  const ControlTokens control(o200k());
  EXPECT_EQ(control.done, 200002);
  EXPECT_EQ(control.constrain, 200003);
  EXPECT_EQ(control.channel, 200005);
  EXPECT_EQ(control.start, 200006);
  EXPECT_EQ(control.end, 200007);
  EXPECT_EQ(control.message, 200008);
  EXPECT_EQ(control.call, 200012);
}

// The expected ids are the values of eos_token_id in the models' generation_config.json.
TEST(ControlTokens, SamplingStopsWhereTheModelsSaySo) {
  EXPECT_THAT(stop_tokens(o200k()), UnorderedElementsAre(200002, 199999, 200012));
  EXPECT_THAT(stop_tokens(tiny()), UnorderedElementsAre(4068, 4065, 4078));
}

}  // namespace
}  // namespace nibble::harmony
