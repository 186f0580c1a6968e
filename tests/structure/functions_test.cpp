// Checks the size of functions in src/: at most 60 lines and 5 parameters. Larger functions that existed when
// the test was written are listed with their size, which may only shrink.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/structure/source_text.h"

namespace nibble::test {
namespace {

constexpr int kMostLines{60}, kMostParameters{5};

struct Exception {
  std::string_view path, function;
  int most;
};

// clang-format off
constexpr Exception kLongFunctions[] = {
    {"src/backend/cuda/sample/sample.cu", "sample_kernel", 64},
    {"src/backend/cuda/step/step_input.cpp", "InputUpload::upload", 103},
};
constexpr Exception kManyParameters[] = {
    {"src/backend/cuda/dense/stream.cu", "launch_linear", 6},
    {"src/backend/cuda/pipeline/stream_shape.h", "stream_bytes", 6},
    {"src/backend/cuda/pipeline/stream_shape.h", "stream_shape", 6},
    {"src/backend/cuda/predict/predict.cpp", "predict_on", 6},
};
// clang-format on

struct Found {
  std::string path;
  FunctionText function;
};

std::vector<Found> functions_over(int most, int FunctionText::*size) {
  std::vector<Found> found;
  for (const SourceFile& file : source_files("src"))
    for (const FunctionText& function : functions_of(file.text))
      if (function.*size > most) found.push_back({file.path, function});
  return found;
}

// Fails for each function that exceeds the limit but is not listed, exceeds its row, or is listed in vain.
void expect_listed(const std::vector<Found>& found, int FunctionText::*size, std::vector<Exception> listed) {
  for (const Found& it : found) {
    const int actual = it.function.*size;
    // Listed overloads are sorted by size, so the first row that fits is the right one.
    const auto row = std::find_if(listed.begin(), listed.end(), [&](const Exception& exception) {
      return exception.path == it.path && exception.function == it.function.name && actual <= exception.most;
    });
    EXPECT_TRUE(row != listed.end()) << it.path << ":" << it.function.first_line << ": " << it.function.name
                                     << " has " << actual << ", which no row of the list allows: split it";
    if (row != listed.end()) listed.erase(row);
  }
  for (const Exception& exception : listed)
    ADD_FAILURE() << exception.path << ": " << exception.function
                  << " is within the limit: take it off the list";
}

TEST(Functions, AreNoLongerThanAScreen) {
  ASSERT_GT(functions_over(0, &FunctionText::num_lines).size(), 4'000u) << "the functions were not found";
  expect_listed(functions_over(kMostLines, &FunctionText::num_lines), &FunctionText::num_lines,
                {std::begin(kLongFunctions), std::end(kLongFunctions)});
}

TEST(Functions, HaveFewParameters) {
  expect_listed(functions_over(kMostParameters, &FunctionText::num_parameters), &FunctionText::num_parameters,
                {std::begin(kManyParameters), std::end(kManyParameters)});
}

TEST(SourceText, FindsFunctionsWithTheirLinesAndParameters) {
  const auto functions = functions_of(R"(namespace a {
struct B : C {
  explicit B(int x = f({1, 2})) : x_{x}, y_(x) {
    g();
  }
  bool operator()(int) const { return true; }
  int y_ = 0, z_{1};
};
constexpr Row kRows[] = {{1, &f}, {2, &g}};
template <typename T, int n = (1 > 0)>
__global__ void __launch_bounds__(kThreads)
    kernel(Args<T, n> args, std::function<void(int, int)> more) {
  // not a brace: }
  const char* text = "{(";
  run([&](int a, int b) { use(a, b); });
}
}  // namespace a
void last() {}
)");
  std::vector<std::string> texts;
  for (const FunctionText& it : functions)
    texts.push_back(it.name + " " + std::to_string(it.first_line) + " " + std::to_string(it.num_lines) + " " +
                    std::to_string(it.num_parameters));
  EXPECT_THAT(texts, testing::ElementsAre("B 3 3 1", "operator() 6 1 1", "kernel 11 6 2", "last 18 1 0"));
}

}  // namespace
}  // namespace nibble::test
