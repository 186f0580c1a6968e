#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/bench_serve/lengths.h"
#include "core/numbers/random.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Lengths, ALengthIsFixedUniformOrExponential) {
  EXPECT_EQ(read_length("512", "-x").draw(0.99), 512);
  const LengthDistribution uniform = read_length("10-13", "-x");
  EXPECT_EQ(uniform.draw(0), 10);
  EXPECT_EQ(uniform.draw(0.999), 13);
  const LengthDistribution exponential = read_length("exp:100", "-x");
  EXPECT_EQ(exponential.draw(0), 1);
  EXPECT_EQ(exponential.draw(0.5), 69);           // ln 2 times the mean
  EXPECT_EQ(exponential.draw(1 - 0x1p-53), 800);  // cut off at 8 times the mean
  double sum = 0;
  constexpr int kNumDraws{20000};
  for (uint64_t i = 0; i < kNumDraws; ++i) sum += exponential.draw(random_unit(5, i));
  // The mean of the draws has a standard deviation of 100 / sqrt(20000) = 0.7. Cutting off at 8 times the
  // mean lowers the mean by 100 e^-8 = 0.03.
  EXPECT_NEAR(sum / kNumDraws, 100, 3);
}

TEST(Lengths, ABadLengthIsAnsweredWithWhatIsAccepted) {
  for (const char* text : {"",
                           "0",
                           "-5",
                           "5-",
                           "-",
                           "7-6",
                           "1048577",
                           "exp:",
                           "exp:0",
                           "exp:1-2",
                           "5x",
                           "1e3",
                           "1-2-3",
                           "lognormal:",
                           "lognormal:9",
                           "lognormal:9:",
                           "lognormal:0:1",
                           "lognormal:9:-1",
                           "lognormal:9:5",
                           "lognormal:9:nan",
                           "normal:9:1"})
    EXPECT_THAT(error_of([&] { read_length(text, "--prompt-tokens"); }),
                AllOf(HasSubstr(std::string("--prompt-tokens '") + text + "'"), HasSubstr("exp:512")))
        << text;
}

TEST(Lengths, ALogNormalLengthHasTheMeanAndTheSigma) {
  const LengthDistribution length = read_length("lognormal:1000:0.5", "-x");
  // The median of a lognormal is its mean times exp(-sigma^2 / 2): 1000 * 0.882497.
  EXPECT_EQ(length.draw(0.5), 882);
  // One sigma above the median, in the logarithm: 882.497 * e^0.5 = 1454.99. A share of 0.8413447 is below.
  EXPECT_EQ(length.draw(0.8413447460685429), 1455);
  EXPECT_EQ(length.draw(0), 10);              // nine sigmas below the median: 882.497 * e^-4.5 = 9.8
  EXPECT_EQ(length.draw(1 - 0x1p-53), 8000);  // cut off at 8 times the mean
  EXPECT_EQ(read_length("lognormal:77:0", "-x").draw(0.01), 77);
  double sum = 0;
  constexpr int kNumDraws{20000};
  for (uint64_t i = 0; i < kNumDraws; ++i) sum += length.draw(random_unit(6, i));
  // One draw deviates by 1000 sqrt(e^0.25 - 1) = 533, and the mean of 20,000 draws by 3.8.
  EXPECT_NEAR(sum / kNumDraws, 1000, 5 * 3.8);
}

TEST(Lengths, NamedWorkloadsAreUniformFromEightTenths) {
  const NamedWorkload& workload = *find_workload("8k1k");
  EXPECT_EQ(workload.prompt_tokens.draw(0), 6553);
  EXPECT_EQ(workload.prompt_tokens.draw(1 - 0x1p-53), 8192);
  EXPECT_EQ(workload.output_tokens.draw(0), 819);
  EXPECT_EQ(workload.output_tokens.draw(1 - 0x1p-53), 1024);
  for (const char* name : {"1k1k", "1k8k", "8k1k"}) {
    EXPECT_NE(find_workload(name), nullptr) << name;
    EXPECT_THAT(std::string(kWorkloadNames), HasSubstr(name));
  }
  EXPECT_EQ(find_workload("2k2k"), nullptr);
}

}  // namespace
}  // namespace nibble::cli
