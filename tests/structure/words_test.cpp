// Holds how comments are written: no wider than code, and in plain words (docs/glossary.md lists the replacements).
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/structure/source_text.h"

namespace nibble::test {
namespace {

constexpr size_t kMostColumns{110};  // as in .clang-format

// Files below these are not yet rewritten. The list may only shrink.
constexpr std::string_view kNotYet[] = {"src/backend/cuda/", "tests/", "bench/"};

bool is_held(const std::string& path) {
  return std::none_of(std::begin(kNotYet), std::end(kNotYet),
                      [&](std::string_view folder) { return path.starts_with(folder); });
}

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
    for (const SourceFile& file : source_files(folder))
      if (is_held(file.path)) expect_narrow_comments(file);
}

// Words that the glossary replaces. Each has a plain use as well ("behind a proxy"), so a few may stay; the limits may
// only shrink.
struct Word {
  const char* pattern;
  const char* instead;
  int most;
};
constexpr Word kWords[] = {
    {"\\bbehind\\b", "after", 37},
    {"\\bso (many|few|long|much)\\b", "N with its name, until", 34},
    {"\\bnobody\\b", "no caller, nothing", 8},
    {"\\bask(s|ed|ing)? for\\b", "prefetch, request", 34},
    {"\\bin front of\\b", "before", 5},
    {"\\bin place of\\b", "instead of", 7},
    {"\\bby itself\\b", "alone", 6},
    {"\\bbeside\\b", "next to, besides", 11},
    {"\\bwhoever\\b", "the caller, clients that", 5},
    {"\\b(is|are) told\\b|\\btells whether\\b", "reports, whether", 5},
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
