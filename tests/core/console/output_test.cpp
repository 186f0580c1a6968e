#include "core/console/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <system_error>

namespace nibble {
namespace {

TEST(Output, AnAnswerThatCanNotBeWrittenIsAnErrorThatSaysWhy) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  write_to(full, "held back");
  try {
    flush(full);
    ADD_FAILURE() << "the text was written";
  } catch (const std::system_error& error) {
    EXPECT_STREQ(error.what(), "cannot write the output: No space left on device");
  }
  std::setvbuf(full, nullptr, _IONBF, 0);
  EXPECT_THROW(print_to(full, "{}", 1), std::system_error);
  std::fclose(full);
}

TEST(Output, AnStderrThatCanNotBeWrittenIsNone) {
  const int kept = ::dup(STDERR_FILENO), full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDERR_FILENO);
  EXPECT_NO_THROW({
    write_to(stderr, "told");
    print_to(stderr, "{}", "told");
    flush(stderr);
  });
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(full);
  std::clearerr(stderr);
}

}  // namespace
}  // namespace nibble
