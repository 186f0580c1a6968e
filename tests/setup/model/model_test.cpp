#include "setup/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/folders.h"

namespace nibble {
namespace {

const std::string kTiny{test::source_path("models/tiny-gpt-oss")};

TEST(OpenedModel, ACheckpointIsOpenedWithItsConfiguration) {
  const Model model = open_model(kTiny, {});
  ASSERT_TRUE(model.weights);
  EXPECT_EQ(model.config.num_layers, 6);
  EXPECT_EQ(weight_bytes(model.config), 13306656u);  // total_size of the index
}

}  // namespace
}  // namespace nibble
