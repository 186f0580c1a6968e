// Checks the size of functions in src/: at most 60 lines and 5 parameters. Those that were longer when the
// test was written are listed with their size, which may only shrink.
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
    {"src/backend/cuda/memory/workspace.cpp", "place", 71},
    {"src/backend/cuda/sample/sample.cu", "sample_kernel", 64},
    {"src/backend/cuda/step/step_input.cpp", "InputUpload::upload", 106},
    {"src/backend/cuda/tune/trials.cpp", "try_kernels", 73},
    {"src/backend/cuda/verify/dense.cpp", "check_route_case", 68},
    {"src/backend/cuda/verify/ends.cpp", "check_embed_case", 75},
    {"src/backend/cuda/verify/ends.cpp", "check_sample_case", 68},
    {"src/backend/cuda/verify/experts.cpp", "check_experts_down_case", 79},
    {"src/backend/cuda/verify/experts.cpp", "check_experts_up_case", 62},
};
constexpr Exception kManyParameters[] = {
    {"src/backend/cpu/attention/attend.cpp", "attend_piece", 6},
    {"src/backend/cpu/packed_matrix.cpp", "pack_rows", 6},
    {"src/backend/cuda/chip/predict.cpp", "StepModel", 6},
    {"src/backend/cuda/chip/predict.cpp", "dense", 7},
    {"src/backend/cuda/chip/predict.cpp", "predict_on", 6},
    {"src/backend/cuda/chip/run_kernel.cuh", "run_kernel", 6},
    {"src/backend/cuda/dense/stream.cu", "launch_linear", 6},
    {"src/backend/cuda/pipeline/stream_shape.h", "stream_bytes", 6},
    {"src/backend/cuda/pipeline/stream_shape.h", "stream_shape", 6},
    {"src/backend/cuda/draft/head_drafter.cpp", "HeadDrafter::multiply", 7},
    {"src/backend/cuda/memory/pack.cu", "write_lane", 6},
    {"src/backend/cuda/limits.cpp", "advice", 6},
    {"src/backend/cuda/limits.cpp", "why_not_memory", 6},
    {"src/backend/cuda/memory/workspace.cpp", "place", 6},
    {"src/backend/cuda/plan.cpp", "Plan::Plan", 6},
    {"src/backend/cuda/rank.cpp", "Rank::Rank", 6},
    {"src/backend/cuda/ranks/nccl_rank.cpp", "NcclRank::NcclRank", 6},
    {"src/backend/cuda/tune/trials.cpp", "try_kernels", 6},
    {"src/backend/cuda/verify/choice.cpp", "check_weight", 6},
    {"src/backend/cuda/verify/comparison.cpp", "Comparison::near_bf16", 6},
    {"src/backend/cuda/verify/comparison.cpp", "Comparison::near_e4m3", 6},
    {"src/backend/cuda/verify/comparison.h", "near", 6},
    {"src/backend/cuda/verify/comparison.h", "near_step", 7},
    {"src/backend/cuda/verify/dense.cpp", "check_choices", 6},
    {"src/backend/cuda/verify/dense.cpp", "check_norm", 6},
    {"src/backend/cuda/verify/matrix.cpp", "TestMatrix::TestMatrix", 6},
    {"src/backend/cuda/verify/same_bits.h", "compare_with_mma", 7},
    {"src/backend/right_drafts.h", "for_right_drafts", 6},
    {"src/cli/bench_serve/client.cpp", "run_requests", 6},
    {"src/cli/measure/speed_tests.cpp", "run_tests", 6},
    {"src/model/convert_blocks.cpp", "to_mxfp4", 6},
    {"src/model/shares/share.cpp", "pieces_of", 6},
    {"src/model/shares/share.cpp", "shares_of", 6},
    {"src/reference/linear.cpp", "for_each_output", 6},
    {"src/server/endpoints/chat_completions.cpp", "ChatChoices", 6},
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

// Fails for each function that is over the limit and not listed, larger than listed, or listed without need.
void expect_listed(const std::vector<Found>& found, int FunctionText::*size, std::vector<Exception> listed) {
  for (const Found& it : found) {
    const int actual = it.function.*size;
    // Rows of overloads lie from small to large, so the first that fits is the right one.
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
