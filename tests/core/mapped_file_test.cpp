#include "core/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "core/error.h"
#include "tests/folders.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(test::build_path("scratch")) / (std::string("mapped_file_") + test->name());
    fs::create_directories(folder_);
  }
  ~MappedFileTest() override { fs::remove_all(folder_); }

  fs::path write(std::string_view text) {
    std::ofstream(folder_ / "file", std::ios::binary) << text;
    return folder_ / "file";
  }

  fs::path folder_;
};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, ShowsTheFilesBytes) {
  const std::string_view text("a\0b\nc", 5);
  const MappedFile file(write(text));
  EXPECT_EQ(text_of(file), text);
  EXPECT_EQ(file.path(), folder_ / "file");
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) { EXPECT_TRUE(MappedFile(write("")).bytes().empty()); }

TEST_F(MappedFileTest, StaysMappedWhileItMoves) {
  MappedFile first(write("first"));
  MappedFile moved(std::move(first));
  EXPECT_EQ(text_of(moved), "first");
  EXPECT_TRUE(first.bytes().empty());
  first = std::move(moved);
  EXPECT_EQ(text_of(first), "first");
}

TEST_F(MappedFileTest, WhatIsNoFileIsRefused) {
  EXPECT_THROW(MappedFile(folder_ / "nowhere"), InputError);
  EXPECT_THROW(MappedFile{folder_}, InputError);
  EXPECT_THROW(read_text_file("/dev/null"), InputError);
}

TEST_F(MappedFileTest, ATextFileOverTheLimitIsRefused) {
  const fs::path path = write("12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  EXPECT_THROW(read_text_file(path, 4), InputError);
}

}  // namespace
}  // namespace nibble
