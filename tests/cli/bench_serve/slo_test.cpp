#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench_serve/slo.h"
#include "tests/cli/bench_serve/some_answers.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The answers have these times: TTFT 0.5, 1, (failed), 0.25; TPOT 0.5, 1, -, 0.75; E2E 1.5, 2, -, 1.
double share(const char* limits) { return share_within(read_slo(limits, "--slo"), some_answers()); }

TEST(Slo, AShareOfAllRequestsIsWithinAllLimits) {
  EXPECT_EQ(share("ttft=1"), 0.75);  // a time may equal its limit; the failed answer exceeds every limit
  EXPECT_EQ(share("ttft=0.5"), 0.5);
  EXPECT_EQ(share("ttft=0.5,tpot=0.5"), 0.25);
  EXPECT_EQ(share("e2e=1.5,ttft=0.3"), 0.25);
  EXPECT_EQ(share("tpot=0.1"), 0);
}

TEST(Slo, AnAnswerWithoutVisibleTokensIsJudgedByItsEnd) {
  TimedAnswer answer;
  answer.ended = 2;
  answer.num_output_tokens = 1;
  EXPECT_TRUE(read_slo("ttft=2,tpot=0.001", "").is_met_by(answer));
  EXPECT_FALSE(read_slo("ttft=1.9", "").is_met_by(answer));
}

TEST(Slo, BadLimitsAreRefusedWithOnesThatAreGood) {
  for (const char* text : {"", "ttft", "ttft=", "ttft=0", "ttft=-1", "ttft=x", "ttft=3s", "itl=1", "ttft=1,",
                           ",", "ttft=1,ttft=2", "TTFT=1", "ttft=nan"})
    EXPECT_THAT(error_of([&] { read_slo(text, "--slo"); }),
                AllOf(HasSubstr(std::string("--slo '") + text + "'"), HasSubstr("ttft=3,tpot=0.08")))
        << text;
}

}  // namespace
}  // namespace nibble::cli
