// Checks the form of comments: lines no wider than code, and plain words (docs/glossary.md lists the
// replacements).
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/structure/source_text.h"

namespace nibble::test {
namespace {

constexpr size_t kMostColumns{110};  // the column limit in .clang-format

void expect_narrow_comments(const SourceFile& file) {
  std::istringstream lines(file.text), comments(comments_of(file.text));
  std::string line, comment;
  for (int number = 1; std::getline(lines, line) && std::getline(comments, comment); ++number) {
    if (comment.find_first_not_of(' ') == std::string::npos) continue;
    EXPECT_LE(line.size(), kMostColumns) << file.path << ":" << number;
  }
}

TEST(Comments, AreNoWiderThanCode) {
  for (const std::string_view folder : {"src", "tests", "bench"})
    for (const SourceFile& file : source_files(folder)) expect_narrow_comments(file);
}

// Words that the glossary replaces. Each word has a plain use as well ("behind a proxy"), so a few may stay.
// The limits may only shrink.
struct Word {
  const char* pattern;
  const char* instead;
  int most;
};
constexpr Word kWords[] = {
    {"\\bbehind\\b", "after", 5},
    {"\\bso (many|few|long|much)\\b", "N with its name, until", 3},
    {"\\bnobody\\b", "no caller, nothing", 0},
    {"\\bask(s|ed|ing)? for\\b", "prefetch, request", 3},
    {"\\bin front of\\b", "before", 0},
    {"\\bin place of\\b", "instead of", 0},
    {"\\bby itself\\b", "alone", 0},
    {"\\bbeside\\b", "next to, besides", 2},
    {"\\bwhoever\\b", "the caller, clients that", 0},
    {"\\b(is|are) told\\b|\\btells whether\\b", "reports, whether", 0},
};

TEST(Comments, UsePlainWords) {
  for (const Word& word : kWords) {
    const std::regex pattern(word.pattern, std::regex::icase);
    int found = 0;
    std::string places;
    for (const SourceFile& file : source_files("src")) {
      std::istringstream comments(comments_of(file.text));
      int number = 1;
      for (std::string line; std::getline(comments, line); ++number)
        if (std::regex_search(line, pattern)) {
          ++found;
          places += "\n  " + file.path + ":" + std::to_string(number);
        }
    }
    EXPECT_LE(found, word.most) << "'" << word.pattern << "': write " << word.instead << places;
  }
}

}  // namespace
}  // namespace nibble::test
