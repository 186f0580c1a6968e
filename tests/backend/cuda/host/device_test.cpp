// Tests what the code queries from the driver, and how often. The linker replaces three functions of the CUDA
// runtime here (--wrap), so no GPU is needed.
#include "backend/cuda/chip/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace {

int num_property_questions{0}, num_memory_questions{0};
size_t free_now{0};

}  // namespace

extern "C" {
cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  ++num_property_questions;
  *properties = {};
  std::strcpy(properties->name, "a GPU");
  properties->multiProcessorCount = 132;
  properties->major = 9;
  properties->totalGlobalMem = size_t{80} << 30;
  properties->sharedMemPerBlockOptin = size_t{227} << 10;
  return cudaSuccess;
}
cudaError_t __real_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (attribute != cudaDevAttrMpsEnabled) return __real_cudaDeviceGetAttribute(value, attribute, device);
  *value = 1;
  return cudaSuccess;
}
cudaError_t __wrap_cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  ++num_memory_questions;
  *free_bytes = free_now;
  *total_bytes = size_t{80} << 30;
  return cudaSuccess;
}
}

namespace nibble::cuda {
namespace {

TEST(CudaDevice, TheDriverIsQueriedForPropertiesOnceAndNotForFreeMemory) {
  num_memory_questions = 0;
  for (int time = 0; time < 1000; ++time) EXPECT_TRUE(device_caps().has_dependent_launch);
  EXPECT_EQ(device_caps().name, "a GPU");
  EXPECT_EQ(device_caps().family, Family::kSm90);
  EXPECT_EQ(device_caps().num_multiprocessors, 132);
  EXPECT_EQ(device_caps().compute_capability, 90);
  EXPECT_EQ(device_caps().total_bytes, size_t{80} << 30);
  EXPECT_EQ(device_caps().shared_bytes, size_t{227} << 10);
  EXPECT_FALSE(device_caps().is_integrated);
  EXPECT_EQ(num_property_questions, 1);
  EXPECT_EQ(num_memory_questions, 0);
}

TEST(CudaDevice, PlanningAsksForTheMemoryThatIsFreeNow) {
  for (const size_t bytes : {size_t{70} << 30, size_t{3} << 30}) {
    free_now = bytes;
    EXPECT_EQ(free_device_bytes(known_gpu("h200")), bytes);
  }
}

// Under MPS, two programs can deadlock if each runs a kernel whose CTAs wait for each other.
TEST(CudaDevice, SaysWhereMpsDividesIt) {
  EXPECT_TRUE(device_caps().is_divided);
  EXPECT_THAT(describe(device_caps()), testing::EndsWith(", shared through MPS"));
  EXPECT_THAT(describe(known_gpu("h200")), testing::Not(testing::HasSubstr("MPS")));
}

// If host and device share memory, the driver counts only unused pages as free, not the page cache.
TEST(CudaDevice, WhereTheHostsMemoryIsSharedTheHostSaysWhatIsFree) {
  num_memory_questions = 0;
  free_now = 1;
  EXPECT_GT(free_device_bytes(known_gpu("gb10")), size_t{1} << 20);
  EXPECT_EQ(num_memory_questions, 0);
}

}  // namespace
}  // namespace nibble::cuda
