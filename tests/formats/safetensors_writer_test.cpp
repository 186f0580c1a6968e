#include "formats/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "core/errors/error.h"
#include "formats/safetensors.h"
#include "tests/file_size_limit.h"
#include "tests/folders.h"
#include "tests/formats/safetensors_bytes.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

class SafetensorsWriterTest : public testing::Test {
 protected:
  SafetensorsWriterTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    fs::create_directories(test::build_path("scratch"));
    path_ = fs::path(test::build_path("scratch")) / (std::string("writer_") + test->name() + ".safetensors");
  }
  ~SafetensorsWriterTest() override { fs::remove(path_); }

  fs::path path_;
};

TEST_F(SafetensorsWriterTest, WhatIsWrittenIsRead) {
  SafetensorsWriter writer(path_, {{"bytes", DType::kU8, {3}},
                                   {"wide", DType::kU64, {1, 1}},
                                   {"none", DType::kBf16, {0}},
                                   {"odd \"name\"\n", DType::kBf16, {2}}});
  // Tensors with wider types come first, so that no tensor after the three bytes is misaligned.
  std::vector<std::string> order;
  for (const SafetensorsEntry& entry : writer.entries()) order.push_back(entry.name);
  EXPECT_THAT(order, testing::ElementsAre("wide", "none", "odd \"name\"\n", "bytes"));
  writer.append(as_bytes("ABCD"));  // pieces may end inside a tensor
  writer.append(as_bytes("EFGHab"));
  writer.append(as_bytes("cdxyz"));
  writer.finish();

  const MappedFile file(path_);
  const std::vector<Tensor> tensors = parse_safetensors(file.bytes(), path_);
  ASSERT_EQ(tensors.size(), 4u);
  for (const Tensor& tensor : tensors) {
    if (tensor.name == "wide") {
      EXPECT_EQ(tensor.dtype, DType::kU64);
      EXPECT_THAT(tensor.shape, testing::ElementsAre(1, 1));
      EXPECT_EQ(as_text(tensor.data), "ABCDEFGH");
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.data()) % 64, 0u);
    } else if (tensor.name == "bytes") {
      EXPECT_EQ(as_text(tensor.data), "xyz");
    } else if (tensor.name == "none") {
      EXPECT_EQ(tensor.data.size(), 0u);
    } else {
      EXPECT_EQ(tensor.name, "odd \"name\"\n");
      EXPECT_EQ(as_text(tensor.data), "abcd");
    }
  }
}

TEST_F(SafetensorsWriterTest, AFileThatWasNotFinishedHasNoName) {
  {
    SafetensorsWriter writer(path_, {{"a", DType::kU8, {8}}});
    writer.append(as_bytes("half"));
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SafetensorsWriterTest, APathThatCannotBeWrittenIsRefused) {
  EXPECT_THROW(SafetensorsWriter(path_ / "below" / "a file", {}), InputError);
}

TEST_F(SafetensorsWriterTest, AFullDiskIsNoticed) {
  const test::FileSizeLimit limit(1 << 10);
  SafetensorsWriter writer(path_, {{"a", DType::kU8, {1 << 12}}});
  EXPECT_THROW(writer.append(as_bytes(std::string(1 << 12, 'x'))), std::system_error);
}

TEST_F(SafetensorsWriterTest, GivingTooMuchOrTooLittleIsABug) {
  SafetensorsWriter writer(path_, {{"a", DType::kU8, {2}}});
  EXPECT_DEATH(writer.append(as_bytes("xyz")), "3 bytes given, 2 missing");
  EXPECT_DEATH(writer.finish(), "2 bytes were never given");
}

}  // namespace
}  // namespace nibble
