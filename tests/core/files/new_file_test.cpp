#include "core/files/new_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/file_size_limit.h"
#include "tests/folders.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(test::build_path("scratch")) / (std::string("new_file_") + test->name());
    fs::create_directories(folder_);
  }
  ~NewFileTest() override { fs::remove_all(folder_); }

  std::string contents(const fs::path& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  ptrdiff_t num_files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(NewFileTest, HasItsNameOnlyWhenItIsFinished) {
  NewFile file(folder_ / "x");
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  file.finish();
  EXPECT_EQ(contents(folder_ / "x"), "one two");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(NewFileTest, LeavesNothingWhereItIsNotFinished) {
  { NewFile(folder_ / "x").write("half of"); }
  EXPECT_EQ(num_files(), 0);
}

TEST_F(NewFileTest, WhatHadTheNameStaysUntilThen) {
  std::ofstream(folder_ / "x") << "old";
  { NewFile(folder_ / "x").write("half of"); }
  EXPECT_EQ(contents(folder_ / "x"), "old");
  NewFile file(folder_ / "x");
  file.write("new");
  EXPECT_EQ(contents(folder_ / "x"), "old");
  file.finish();
  EXPECT_EQ(contents(folder_ / "x"), "new");
}

TEST_F(NewFileTest, AFolderThatIsNotThereIsBadInput) {
  EXPECT_THAT(error_of([&] { NewFile file(folder_ / "none" / "x"); }),
              testing::AllOf(HasSubstr((folder_ / "none" / "x").string()), HasSubstr("No such file")));
}

TEST_F(NewFileTest, AFullDiskIsAFailureOfTheMachine) {
  std::string what;
  try {
    const test::FileSizeLimit limit(1 << 10);
    NewFile file(folder_ / "x");
    file.write(std::string(1 << 12, '.'));
  } catch (const std::system_error& error) {
    what = error.what();
  }
  EXPECT_THAT(what, testing::AllOf(HasSubstr((folder_ / "x").string()), HasSubstr("File too large")));
  EXPECT_EQ(num_files(), 0);
}

TEST_F(NewFileTest, TakesThePlaceOfFilesAlone) {
  fs::create_directory(folder_ / "folder");
  for (const fs::path& path : {fs::path("/dev/null"), folder_ / "folder"})
    EXPECT_THAT(error_of([&] { NewFile file(path); }), HasSubstr("not a regular file"));
}

TEST_F(NewFileTest, AFifoAsOutputNeedsAReader) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { refuse_unread_fifo(fifo); }), HasSubstr("is a FIFO that no process reads"));
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(error_of([&] { refuse_unread_fifo(fifo); }), "accepted");
  ::close(reader);
  EXPECT_EQ(error_of([&] { refuse_unread_fifo(folder_ / "new"); }), "accepted");
  EXPECT_EQ(error_of([&] { refuse_unread_fifo("/dev/null"); }), "accepted");
}

TEST_F(NewFileTest, ATextFileIsWrittenWhereALinkLeadsToAlsoIfNothingIsThereYet) {
  fs::create_symlink(folder_ / "there", folder_ / "link");
  for (const char* text : {"first", "second"}) {
    write_text_file(folder_ / "link", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
    EXPECT_EQ(contents(folder_ / "there"), text);
  }
  EXPECT_EQ(num_files(), 2);
}

}  // namespace
}  // namespace nibble
