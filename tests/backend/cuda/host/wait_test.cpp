// Tests that waiting for a GPU times out, and that errors which end the CUDA context are recognised.
#include "backend/cuda/chip/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "core/errors/error.h"

namespace nibble::cuda {
namespace {

TEST(Wait, EndsWhenTheWorkIsDone) {
  int num_asked = 0;
  wait_until_ready([&] { return ++num_asked < 1000 ? cudaErrorNotReady : cudaSuccess; }, "a step");
  EXPECT_EQ(num_asked, 1000);
}

TEST(Wait, GivesUpAGpuThatHangs) {
  const auto hangs = [] { return cudaErrorNotReady; };
  try {
    wait_until_ready(hangs, "a step", 0);
    FAIL();
  } catch (const BackendLost& error) {
    EXPECT_STREQ(error.what(), "the GPU hangs: a step did not end within 0 s");
  }
}

TEST(Wait, EndsWithWhatIsFoundMeanwhile) {
  EXPECT_THROW(wait_until_ready([] { return cudaErrorNotReady; }, "a step", 1e9,
                                [] { throw InputError("a link is down"); }),
               InputError);
}

TEST(Check, DistinguishesErrorsThatEndTheContext) {
  for (const cudaError_t lost : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable,
                                 cudaErrorDevicesUnavailable, cudaErrorMisalignedAddress, cudaErrorUnknown})
    EXPECT_THROW(check(lost, "running a step"), BackendLost) << lost;
  for (const cudaError_t once :
       {cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorLaunchOutOfResources})
    EXPECT_THROW(check(once, "running a step"), InputError) << once;
  EXPECT_NO_THROW(check(cudaSuccess, "running a step"));
}

}  // namespace
}  // namespace nibble::cuda
