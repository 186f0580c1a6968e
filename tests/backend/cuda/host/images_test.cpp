#include "backend/cuda/chip/images.h"
#include "backend/cuda/chip/caps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::HasSubstr;

const std::vector<Image> kEveryChip = parse_images("80,90a-real,120a-real,121a-real");

TEST(CudaImages, TextNamesMachineCodeAndPtx) {
  EXPECT_EQ(parse_images("80,90a-real,75-virtual"),
            (std::vector<Image>{{80, false, true, true}, {90, true, true, false}, {75, false, false, true}}));
  EXPECT_EQ(describe(kEveryChip), "sm_80 (also PTX), sm_90a, sm_120a, sm_121a");
  EXPECT_EQ(describe(parse_images("80-virtual")), "PTX of compute_80");
}

TEST(CudaImages, AChipTakesItsOwnMachineCode) {
  for (const Image& image : kEveryChip) {
    const auto choice = choose_image(kEveryChip, image.compute_capability);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->image, image);
    EXPECT_FALSE(choice->is_compiled_at_start);
  }
}

TEST(CudaImages, MachineCodeRunsOnLaterChipsOfItsGeneration) {
  for (const int capability : {86, 89}) {
    const auto choice = choose_image(kEveryChip, capability);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->image.compute_capability, 80);
    EXPECT_FALSE(choice->is_compiled_at_start) << capability;
  }
  EXPECT_TRUE(choose_image(parse_images("86"), 89));
  EXPECT_FALSE(choose_image(parse_images("89"), 86));
  EXPECT_FALSE(choose_image(parse_images("80-real"), 90));
}

TEST(CudaImages, MachineCodeOfOneChipAloneRunsOnNoOther) {
  EXPECT_FALSE(choose_image(parse_images("120a-real"), 121));
  EXPECT_FALSE(choose_image(parse_images("90a"), 100));  // even the PTX of sm_90a runs on sm_90 only
  EXPECT_TRUE(choose_image(parse_images("120-real"), 121));
}

TEST(CudaImages, APlainAndASpecificImageOfAChipGiveTheSpecificOne) {
  for (const char* order : {"120,121a-real", "121a-real,120"}) {
    const auto choice = choose_image(parse_images(order), 121);
    ASSERT_TRUE(choice);
    EXPECT_TRUE(choice->image.is_specific) << order;
  }
}

TEST(CudaImages, MachineCodeGoesBeforePtxOfALaterArchitecture) {
  const auto choice = choose_image(parse_images("86-virtual,80-real"), 89);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->image.compute_capability, 80);
  EXPECT_FALSE(choice->is_compiled_at_start);
}

TEST(CudaImages, AnUnknownChipHasPtxCompiledUnlessThatIsRefused) {
  const auto choice = choose_image(kEveryChip, 100);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->image.compute_capability, 80);
  EXPECT_TRUE(choice->is_compiled_at_start);
  EXPECT_NO_THROW(check_images("a B200", 100, kEveryChip, true));
  EXPECT_THAT(error_of([] { check_images("a B200", 100, kEveryChip, false); }),
              testing::AllOf(HasSubstr("--jit off: a B200 is sm_100"), HasSubstr("compute_80"),
                             HasSubstr("-DNIBBLE_CUDA_ARCHITECTURES=100")));
  EXPECT_NO_THROW(check_images("an H200", 90, kEveryChip, false));
}

TEST(CudaImages, AChipThatCanRunNothingIsRefused) {
  EXPECT_THAT(error_of([] { check_images("an A100", 80, parse_images("90a-real"), true); }),
              HasSubstr("an A100 is sm_80, and this program has sm_90a"));
}

TEST(CudaImages, TheProgramKnowsItsOwn) {
  EXPECT_FALSE(images().empty());
  EXPECT_THAT(images_text(), testing::MatchesRegex("cuda 1[0-9]\\.[0-9]: (sm_|PTX of).*"));
}

}  // namespace
}  // namespace nibble::cuda
