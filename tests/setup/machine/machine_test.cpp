#include "setup/machine/machine.h"

#include <gtest/gtest.h>

#include "core/threads/thread_pool.h"

namespace nibble {
namespace {

TEST(Machine, SaysWhatThisOneIs) {
  const Machine machine = describe_machine(std::nullopt);
  EXPECT_EQ(machine.cpu, cpu_name());
  EXPECT_EQ(machine.num_cores, num_usable_cores());
  ASSERT_TRUE(machine.memory_bytes);
  EXPECT_GT(*machine.memory_bytes, size_t{256} << 20);
  EXPECT_FALSE(machine.device);
}

// A machine may report no caches and no clocks. Sizes that it reports are plausible.
TEST(Machine, ReportedCachesAreSmallerThanTheMemory) {
  const Machine machine = describe_machine(std::nullopt);
  if (!machine.cache_bytes) GTEST_SKIP() << "this machine tells no caches";
  EXPECT_GE(*machine.cache_bytes, size_t{64} << 10);
  EXPECT_LT(*machine.cache_bytes, *machine.memory_bytes);
  EXPECT_EQ(machine.backend_cache_bytes(), machine.cache_bytes);
}

TEST(Machine, ADeviceHasCachesOfItsOwn) {
  DeviceFacts device{};
  device.name = "A GPU";
  device.cache_bytes = 50;
  EXPECT_EQ(describe_machine(device).backend_cache_bytes(), 50u);
  device.cache_bytes = std::nullopt;
  EXPECT_EQ(describe_machine(device).backend_cache_bytes(), std::nullopt);
}

}  // namespace
}  // namespace nibble
