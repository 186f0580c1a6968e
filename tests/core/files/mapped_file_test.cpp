#include "core/files/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/errors/error.h"
#include "core/files/lost_pages.h"
#include "tests/error_of.h"
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

TEST_F(MappedFileTest, AFifoIsRefusedAtOnce) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& open : {std::function<void()>([&] { MappedFile{fifo}; }),
                           std::function<void()>([&] { refuse_special_file(fifo); })})
    EXPECT_EQ(error_of(open),
              fifo.string() + ": is a FIFO (a named pipe or the shell's <(...)); expected a file");
  refuse_special_file(write("a file"));
  refuse_special_file(folder_ / "nowhere");
}

TEST_F(MappedFileTest, AChangeOfSizeOrTimeIsSeen) {
  const fs::path path = write("first");
  const MappedFile file(path);
  EXPECT_FALSE(file.has_changed());
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_TRUE(file.has_changed());
  const MappedFile again(path);
  EXPECT_FALSE(again.has_changed());
  const auto modified = fs::last_write_time(path);
  fs::resize_file(path, 3);
  fs::last_write_time(path, modified);
  EXPECT_TRUE(again.has_changed());
}

TEST_F(MappedFileTest, AReplacedFileIsNotAChange) {  // the mapping keeps the old file
  const fs::path path = write("first");
  const MappedFile file(path);
  fs::remove(path);
  write("other");
  EXPECT_FALSE(file.has_changed());
  EXPECT_EQ(text_of(file), "first");
}

using LostPagesDeathTest = MappedFileTest;

TEST_F(LostPagesDeathTest, AFileCutShortEndsTheProcessWithItsName) {
  const fs::path path = write(std::string(100'000, 'x'));
  EXPECT_EXIT(
      {
        exit_on_lost_pages(3);
        MappedFile first(path);
        const MappedFile file(std::move(first));
        fs::resize_file(path, 10);
        ::_exit(std::to_integer<int>(file.bytes()[90'000]));
      },
      testing::ExitedWithCode(3), "nibble: .*/file: cannot be read any more: it was cut short");
}

TEST_F(LostPagesDeathTest, ABusErrorElsewhereStaysOne) {
  EXPECT_EXIT(
      {
        exit_on_lost_pages(3);
        { const MappedFile file(write("gone")); }
        ::raise(SIGBUS);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

// Makes files that are written to disk, so that the page cache may drop their pages.
class DroppedPagesTest : public MappedFileTest {
 protected:
  const size_t page_{static_cast<size_t>(::sysconf(_SC_PAGESIZE))}, folio_{MappedFile::kFolioBytes};
  const size_t num_bytes_{4 * folio_ + 100};

  MappedFile map_synced_file(const char* name) {
    std::string text(num_bytes_, 'x');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / page_ + i);
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    EXPECT_EQ(::fsync(descriptor), 0);
    ::close(descriptor);
    return MappedFile(path);
  }
  // Reads all bytes and returns their hash.
  static unsigned touch(const MappedFile& file) {
    unsigned sum = 0;
    for (const std::byte value : file.bytes()) sum = 31 * sum + static_cast<unsigned>(value);
    return sum;
  }
  // Returns the number of pages of `part` that are in the page cache.
  size_t num_cached(std::span<const std::byte> part) const {
    const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page_ * page_;
    const size_t bytes = reinterpret_cast<uintptr_t>(part.data() + part.size()) - begin;
    std::vector<unsigned char> is_cached((bytes + page_ - 1) / page_);
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), bytes, is_cached.data()), 0);
    size_t count = 0;
    for (const unsigned char flags : is_cached) count += flags & 1;
    return count;
  }
  // Returns the number of dropped pages that stay in the page cache. On a filesystem in memory, such as
  // tmpfs, all pages stay.
  size_t kept(size_t num_pages) const { return can_drop_ ? 0 : num_pages; }

 private:
  // Returns whether this filesystem drops unmapped pages when the kernel is asked directly.
  bool can_drop() {
    { const MappedFile file = map_synced_file("control"); }
    const int descriptor = ::open((folder_ / "control").c_str(), O_RDONLY);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    void* data = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_SHARED, descriptor, 0);
    const size_t left = num_cached({static_cast<const std::byte*>(data), num_bytes_});
    ::munmap(data, num_bytes_);
    ::close(descriptor);
    return left == 0;
  }
  const bool can_drop_{can_drop()};
};

TEST_F(DroppedPagesTest, LeaveThePageCacheAndTheOthersStay) {
  const MappedFile file = map_synced_file("file");
  const unsigned sum = touch(file);
  const size_t num_pages = num_cached(file.bytes());
  ASSERT_EQ(num_pages, (num_bytes_ + page_ - 1) / page_);
  const auto part = file.bytes().subspan(folio_ + 7, folio_ + 13);  // spans two folios
  file.drop_pages(part);
  const size_t num_dropped = 2 * folio_ / page_;
  EXPECT_EQ(num_cached(part), kept(folio_ / page_ + 1));
  EXPECT_EQ(num_cached(file.bytes()), num_pages - num_dropped + kept(num_dropped));
  EXPECT_EQ(touch(file), sum);  // these pages were read from disk again
  file.drop_pages(file.bytes());
  EXPECT_EQ(num_cached(file.bytes()), kept(num_pages));
}

TEST_F(DroppedPagesTest, APassThatDropsWhatItHasReadLeavesNothing) {
  MappedFiles files;
  for (const char* name : {"first", "second"})
    files.push_back(std::make_shared<const MappedFile>(map_synced_file(name)));
  for (const auto& file : files) {
    touch(*file);
    const size_t piece = folio_ / 2 + 5;
    for (size_t at = 0; at < file->bytes().size(); at += piece)
      drop_pages_until(files, file->bytes().subspan(at, std::min(piece, file->bytes().size() - at)));
  }
  for (const auto& file : files)
    EXPECT_EQ(num_cached(file->bytes()), kept((num_bytes_ + page_ - 1) / page_)) << file->path();
}

TEST_F(DroppedPagesTest, UntilAPartAreAllBeforeIt) {
  const MappedFiles files{std::make_shared<const MappedFile>(map_synced_file("file"))};
  const auto bytes = files.front()->bytes();
  touch(*files.front());
  drop_pages_until(files, bytes.subspan(2 * folio_ - 9, 9));
  EXPECT_EQ(num_cached(bytes.first(2 * folio_)), kept(2 * folio_ / page_));
  EXPECT_EQ(num_cached(bytes.subspan(2 * folio_)), 2 * folio_ / page_ + 1);
}

TEST_F(DroppedPagesTest, BytesOfNoFileAreLeftAlone) {
  const MappedFiles files{std::make_shared<const MappedFile>(map_synced_file("file"))};
  const std::vector<std::byte> elsewhere(3 * page_, std::byte{5});
  drop_pages_until(files, elsewhere);
  EXPECT_EQ(elsewhere, std::vector<std::byte>(3 * page_, std::byte{5}));
  drop_pages_until(files, {});
}

TEST_F(MappedFileTest, ATextFileOverTheLimitIsRefused) {
  const fs::path path = write("12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  EXPECT_THROW(read_text_file(path, 4), InputError);
}

TEST_F(MappedFileTest, ACopyHasTheBytesThatTheFileHadWhenItWasRead) {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i);
  MappedFile first(write(text), FileAccess::kRead);
  const MappedFile copy(std::move(first));
  EXPECT_TRUE(copy.is_copy());
  fs::resize_file(folder_ / "file", 0);  // a mapping would lose its pages
  write(std::string(100, 'x'));
  EXPECT_EQ(text_of(copy), text);
  EXPECT_FALSE(copy.has_changed());
  EXPECT_TRUE(MappedFile(write(""), FileAccess::kRead).bytes().empty());
}

// Released pages take no memory and are read from the file again: they show a change of the file. The other
// pages keep their copy.
TEST_F(MappedFileTest, ReleasedPagesOfACopyAreReadFromTheFileAgain) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const MappedFile copy(write(std::string(4 * page, 'a')), FileAccess::kRead);
  const std::string changed(4 * page, 'b');
  std::fstream(folder_ / "file", std::ios::in | std::ios::out | std::ios::binary) << changed;
  EXPECT_EQ(text_of(copy), std::string(4 * page, 'a'));
  release_pages(copy.bytes().subspan(page - 1, page + 2));  // page 1, and a byte of pages 0 and 2
  copy.drop_pages(copy.bytes().subspan(3 * page, page));
  const std::string expected =
      std::string(page, 'a') + std::string(page, 'b') + std::string(page, 'a') + std::string(page, 'b');
  EXPECT_EQ(text_of(copy), expected);
}

TEST_F(MappedFileTest, AFileThatCannotBeReadIsNoCopy) {
  EXPECT_NE(error_of([&] { MappedFile(folder_ / "none", FileAccess::kRead); }), "accepted");
  EXPECT_NE(error_of([&] { MappedFile(folder_, FileAccess::kRead); }), "accepted");
}

}  // namespace
}  // namespace nibble
