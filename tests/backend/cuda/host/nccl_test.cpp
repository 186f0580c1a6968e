// Tests the messages about an NCCL library that is missing or unsuitable. Needs no GPU.
#include "backend/cuda/ranks/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cuda/ranks/connection.h"
#include "backend/cuda/ranks/nccl_sum.h"
#include "backend/cuda/ranks/protocol.h"
#include "tests/error_of.h"

namespace nibble::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CudaNccl : public testing::Test {
 protected:
  void SetUp() override { forget(); }
  void TearDown() override { forget(); }
  static void forget() {
    for (const char* name :
         {"FAKE_NCCL_VERSION", "FAKE_NCCL_ERROR_AT", "NCCL_SOCKET_IFNAME", "NCCL_NVLS_ENABLE"})
      unsetenv(name);
  }
  static std::string refusal_of(const char* library) {
    return error_of([&] { Nccl::load(library); });
  }
};

TEST_F(CudaNccl, IsLoadedFromTheFileThatIsNamed) {
  EXPECT_EQ(Nccl::load(FAKE_NCCL)->version(), "2.28.9");
  EXPECT_NE(Nccl::load(FAKE_NCCL)->new_group(), Nccl::load(FAKE_NCCL)->new_group());
}

TEST_F(CudaNccl, IsRefusedInALineWhereItIsNotThereOrNotAsItShouldBe) {
  EXPECT_THAT(
      refusal_of("/nowhere/libnccl.so.2"),
      AllOf(HasSubstr("/nowhere/libnccl.so.2"), HasSubstr("--nccl names the file"), Not(HasSubstr("\n"))));
  EXPECT_THAT(refusal_of(FAKE_NCCL_WITHOUT_BROADCAST), HasSubstr("lacks ncclBroadcast"));
  setenv("FAKE_NCCL_VERSION", "22105", 1);
  EXPECT_THAT(refusal_of(FAKE_NCCL), HasSubstr("is version 2.21.5, and nibble needs 2.22.0 or later"));
}

TEST_F(CudaNccl, UsesNoMulticastAndTheHeadsInterfaceUnlessAnotherIsSet) {
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  Nccl::load(FAKE_NCCL, "enp1s0f0np0");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=enp1s0f0np0");
  Nccl::load(FAKE_NCCL, "lo");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=enp1s0f0np0");
}

TEST_F(CudaNccl, SaysWhatFailedAndItsOwnWordsOfThat) {
  const auto nccl = Nccl::load(FAKE_NCCL);
  setenv("FAKE_NCCL_ERROR_AT", "1", 1);
  EXPECT_EQ(error_of([&] { nccl->new_group(); }),
            "NCCL 2.28.9: creating a group: a fake error: this is a test");
}

// The library is checked before the GPU, so a machine with neither reports the missing library.
TEST_F(CudaNccl, IsTheFirstThingThatANodeChecks) {
  CudaOptions own;
  own.node_rank = 1;
  own.parts = {1, 1};
  own.nccl = "/nowhere/libnccl.so.2";
  EXPECT_THAT(error_of([&] { rank_traits(own); }), HasSubstr("/nowhere/libnccl.so.2"));
}

// A second rank adds room for the terms of one sum, which has at most kSumRows rows.
TEST_F(CudaNccl, TakesMemoryForTheTermsOfAllRanks) {
  EXPECT_EQ(nccl_rank_bytes(2880, 2, 8192) - nccl_rank_bytes(2880, 1, 8192), size_t{kSumRows} * 2880 * 4);
  EXPECT_EQ(nccl_rank_bytes(2880, 2, 100) - nccl_rank_bytes(2880, 1, 100), size_t{100} * 2880 * 4);
}

}  // namespace
}  // namespace nibble::cuda
