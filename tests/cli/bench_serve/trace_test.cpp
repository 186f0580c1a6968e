#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "cli/bench_serve/trace.h"
#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Trace, IsReadInMooncakesForm) {
  const Trace trace =
      read_trace(R"({"timestamp": 3000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}

{"timestamp": 1500, "input_length": 1, "output_length": 9, "hash_ids": []}
)",
                 "t.jsonl");
  ASSERT_THAT(trace.requests, SizeIs(2));
  EXPECT_TRUE(trace.has_times);
  EXPECT_DOUBLE_EQ(trace.requests[0].seconds, 1.5);  // seconds after the earliest request
  EXPECT_EQ(trace.requests[0].num_prompt_tokens, 6955);
  EXPECT_EQ(trace.requests[0].num_output_tokens, 52);
  EXPECT_THAT(trace.requests[0].blocks, ElementsAre(46, 47));
  EXPECT_EQ(trace.requests[1].seconds, 0);
}

TEST(Trace, MayStateLengthsOnly) {
  const Trace trace = read_trace(R"({"input_length": 7, "output_length": 8})", "t.jsonl");
  EXPECT_FALSE(trace.has_times);
  EXPECT_EQ(trace.requests.at(0).num_prompt_tokens, 7);
}

TEST(Trace, ABadLineIsNamed) {
  const auto error = [](const char* second) {
    return error_of([&] {
      read_trace("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n" + std::string(second),
                 "t.jsonl");
    });
  };
  const std::pair<const char*, const char*> lines[]{
      {"{", "is not valid JSON"},
      {"[]", "must be an object"},
      {R"({"timestamp": 1, "output_length": 1})", ".input_length is missing"},
      {R"({"timestamp": 1, "input_length": 0, "output_length": 1})",
       ".input_length must be a whole number from 1"},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 1.5})",
       ".output_length must be a whole number"},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 18446744073709551615})",
       ".output_length must be"},
      {R"({"timestamp": -1, "input_length": 1, "output_length": 1})", ".timestamp must be"},
      {R"({"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]})",
       ".hash_ids must be at most 1 blocks of 512 tokens"},
      {R"({"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": ["a"]})",
       ".hash_ids[0] must be"},
      {R"({"timestamp": 1, "input_length": 1, "output_length": 1, "prompt": "a"})", ".prompt is unknown"}};
  for (const auto& [line, what] : lines) {
    EXPECT_THAT(error(line), HasSubstr("t.jsonl: line 2")) << line;
    EXPECT_THAT(error(line), HasSubstr(what)) << line;
  }
  EXPECT_THAT(error(R"({"input_length": 1, "output_length": 1})"),
              HasSubstr("'timestamp' must be in all lines"));
  EXPECT_THAT(error_of([] { read_trace("\n", "t.jsonl"); }), HasSubstr("contains no request"));
}

}  // namespace
}  // namespace nibble::cli
