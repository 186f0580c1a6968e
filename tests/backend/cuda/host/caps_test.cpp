// Tests which capabilities a GPU is assumed to have from the driver's report alone. Needs no GPU.
#include "backend/cuda/chip/caps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::HasSubstr;

DeviceCaps caps_of_capability(int compute_capability) {
  return caps_of({"a GPU", compute_capability, 100, size_t{99} << 10, size_t{32} << 30, false});
}

TEST(CudaCaps, EveryKnownChipIsRecognisedByItsProperties) {
  for (const std::string& name : known_gpu_names())
    if (!name.starts_with("sm_")) {
      EXPECT_EQ(known_name_of(known_gpu(name)), name);
    }
  EXPECT_EQ(known_name_of({"NVIDIA H100 80GB HBM3", 90, 132, size_t{227} << 10, 84'942'979'072, false}),
            "h100");
  EXPECT_EQ(known_name_of({"NVIDIA H200", 90, 132, size_t{227} << 10, 150'109'880'320, false}), "h200");
  EXPECT_EQ(known_name_of({"a GPU", 90, 100, size_t{227} << 10, 84'942'979'072, false}), "");
}

TEST(CudaCaps, EveryFamilyIsItself) {
  std::set<int> capabilities;
  for (const Family family : kFamilies) {
    const int capability = compute_capability_of(family);
    EXPECT_TRUE(capabilities.insert(capability).second) << capability;
    EXPECT_EQ(caps_of_capability(capability).family, family) << capability;
    EXPECT_TRUE(caps_of_capability(capability).is_of_family()) << capability;
  }
}

// Code for sm_90a and sm_120a runs on no later chip. So an unknown chip takes a family whose code runs on it.
TEST(CudaCaps, AnUnknownChipTakesTheNearestFamilyWhoseCodeRunsThere) {
  const std::map<int, Family> expected{{87, Family::kSm86},   {88, Family::kSm86},   {103, Family::kSm100},
                                       {110, Family::kSm100}, {130, Family::kSm100}, {200, Family::kSm100}};
  for (const auto& [capability, family] : expected) {
    const DeviceCaps caps = caps_of_capability(capability);
    EXPECT_EQ(caps.family, family) << capability;
    EXPECT_FALSE(caps.is_of_family()) << capability;
    EXPECT_FALSE(caps.has_dependent_launch) << capability;
    EXPECT_THAT(describe(caps), HasSubstr("which runs as " + name(family))) << capability;
  }
}

TEST(CudaCaps, AChipBeforeSm80IsRefused) {
  EXPECT_THAT(error_of([] { caps_of_capability(75); }), HasSubstr("compute capability 7.5"));
}

// Kernels compiled for sm_80 do not wait for the kernel before them. If a dependent launch started them
// early, they would read incomplete data.
TEST(CudaCaps, FeaturesAreThoseOfTheCodeNotOfTheChip) {
  for (const Family family : kFamilies) {
    const DeviceCaps caps = caps_of_capability(compute_capability_of(family));
    const bool has_newer_code =
        family == Family::kSm90 || family == Family::kSm120 || family == Family::kSm121;
    EXPECT_EQ(caps.has_dependent_launch, has_newer_code) << name(family);
    EXPECT_EQ(caps.has_clusters, has_newer_code) << name(family);
    EXPECT_EQ(caps.has_bulk_copies, has_newer_code) << name(family);
    EXPECT_EQ(caps.has_block_products, family == Family::kSm120 || family == Family::kSm121) << name(family);
  }
}

TEST(CudaCaps, KnownChipsAreFoundByTheirNameAndByThatOfTheirFamily) {
  for (const std::string& name : known_gpu_names()) EXPECT_TRUE(known_gpu(name).is_of_family()) << name;
  const DeviceCaps gb10 = known_gpu("gb10");
  EXPECT_EQ(gb10.family, Family::kSm121);
  EXPECT_EQ(gb10.num_multiprocessors, 48);
  EXPECT_EQ(gb10.shared_bytes, size_t{99} << 10);
  EXPECT_TRUE(gb10.is_integrated);
  EXPECT_EQ(known_gpu("sm_121").name, gb10.name);
  EXPECT_EQ(known_gpu("h200").shared_bytes, size_t{227} << 10);
  EXPECT_EQ(known_gpu("sm_80").num_multiprocessors, 108);
  EXPECT_THAT(error_of([] { known_gpu("sm_75"); }), testing::AllOf(HasSubstr("sm_75"), HasSubstr("gb10")));
}

}  // namespace
}  // namespace nibble::cuda
