#include "cli/unknown_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return warnings_of_unknown_variables(environment.data());
}

TEST(UnknownVariables, EachIsReportedWithTheNearestSetting) {
  EXPECT_THAT(warnings({"NIBBLE_TEMPRATURE=0", "HOME=/root", "NIBBLE_TOPK=4"}),
              ElementsAre(AllOf(HasSubstr("NIBBLE_TEMPRATURE"), HasSubstr("NIBBLE_TEMPERATURE?")),
                          AllOf(HasSubstr("NIBBLE_TOPK"), HasSubstr("NIBBLE_TOP_K?"))));
}

TEST(UnknownVariables, ANameLikeNoSettingIsReportedWithoutAGuess) {
  EXPECT_THAT(
      warnings({"NIBBLE_COLOUR_OF_THE_PAGE=red", "NIBBLE_PORTT=1", "NIBBLE_API_KY=x"}),
      ElementsAre("unknown variable NIBBLE_COLOUR_OF_THE_PAGE. See 'nibble --help'",
                  "unknown variable NIBBLE_PORTT. See 'nibble --help'",
                  "unknown variable NIBBLE_API_KY: did you mean NIBBLE_API_KEY? See 'nibble --help'"));
}

TEST(UnknownVariables, ASettingIsNone) {
  EXPECT_THAT(warnings({"NIBBLE_TEMPERATURE=nonsense", "NIBBLE_MAX_BATCH_TOKENS="}), IsEmpty());
}

TEST(UnknownVariables, ThoseThatOthersSetAreNone) {
  EXPECT_THAT(warnings({"NIBBLE_BINARY=x", "NIBBLE_SECRET=x", "NIBBLE_PORT=tcp://10.0.0.1:80",
                        "NIBBLE_PORT_80_TCP=x", "NIBBLE_SERVICE_PORT_HTTP=80", "NIBBLED=1", "nibble_seed=1"}),
              IsEmpty());
}

}  // namespace
}  // namespace nibble::cli
