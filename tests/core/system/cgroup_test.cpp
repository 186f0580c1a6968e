#include "core/system/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/folders.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  ~CgroupTest() override { fs::remove_all(place_.root); }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((place_.root / file).parent_path());
    std::ofstream(place_.root / file) << text;
  }
  CgroupPlace place_{fs::path(test::build_path("scratch")) / "cgroup", "/pod/container"};
};

TEST_F(CgroupTest, WithoutFilesOrLimitsThereIsNone) {
  EXPECT_EQ(cpu_quota(place_), std::nullopt);
  EXPECT_EQ(cgroup_memory_left(place_), std::nullopt);
  write("pod/container/cpu.max", "max 100000\n");
  write("pod/container/memory.max", "max\n");
  write("pod/container/memory.current", "5\n");
  EXPECT_EQ(cpu_quota(place_), std::nullopt);
  EXPECT_EQ(cgroup_memory_left(place_), std::nullopt);
}

TEST_F(CgroupTest, TheSmallestQuotaOfTheGroupAndItsParentsApplies) {
  write("pod/container/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(place_), 4.0);
  write("pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(place_), 1.5);
  write("cpu.max", "800000 100000\n");
  EXPECT_EQ(cpu_quota(place_), 1.5);
  place_.own = "/";  // the process's group, as a process in a container sees it
  EXPECT_EQ(cpu_quota(place_), 8.0);
}

TEST_F(CgroupTest, PageCacheCountsAsFreeMemory) {
  write("pod/container/memory.max", "1000\n");
  EXPECT_EQ(cgroup_memory_left(place_), 1000u);
  write("pod/container/memory.current", "700\n");
  EXPECT_EQ(cgroup_memory_left(place_), 300u);
  write("pod/container/memory.stat", "anon 100\nfile 600\ninactive_file 350\nactive_file 150\n");
  EXPECT_EQ(cgroup_memory_left(place_), 800u);
  write("pod/memory.max", "500\n");
  write("pod/memory.current", "900\n");  // more than its limit
  EXPECT_EQ(cgroup_memory_left(place_), 0u);
}

TEST_F(CgroupTest, ThreadsAreAtMostTheWholeCoresOfTheQuota) {
  EXPECT_EQ(cores_within(8, std::nullopt), 8);
  EXPECT_EQ(cores_within(8, 16.0), 8);
  EXPECT_EQ(cores_within(8, 4.0), 4);
  EXPECT_EQ(cores_within(8, 3.9), 3);
  EXPECT_EQ(cores_within(8, 0.5), 1);
}

}  // namespace
}  // namespace nibble
