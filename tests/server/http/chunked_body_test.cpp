// Tests which chunked bodies are read, however their bytes arrive, and which bodies are refused.
#include "server/http/chunked_body.h"

#include <gtest/gtest.h>

#include <string>

#include "server/http/http_error.h"

namespace nibble::server {
namespace {

struct Outcome {
  int refusal{0};
  bool is_done{false};
  std::string body{}, left{};
};

// Passes the bytes in parts of `part_bytes` bytes, as a connection does. Bytes that were not consumed are
// passed again.
Outcome read(const std::string& bytes, size_t part_bytes) {
  ChunkedBody chunks(100, 40);
  Outcome outcome;
  try {
    for (size_t i = 0; i < bytes.size(); i += part_bytes) {
      outcome.left += bytes.substr(i, part_bytes);
      outcome.left.erase(0, chunks.take(outcome.left, outcome.body));
    }
  } catch (const HttpError& error) {
    outcome.refusal = error.status;
  }
  outcome.is_done = chunks.is_done();
  return outcome;
}

class ChunkedBodyParts : public testing::TestWithParam<size_t> {
 protected:
  static int refusal(const std::string& bytes) { return read(bytes, GetParam()).refusal; }
};

TEST_P(ChunkedBodyParts, AddUpToTheBody) {
  const Outcome outcome = read("3\r\nabc\r\n0a\r\n0123\r\n6789\r\n0\r\n\r\nGET", GetParam());
  EXPECT_EQ(outcome.refusal, 0);
  EXPECT_TRUE(outcome.is_done);
  EXPECT_EQ(outcome.body, "abc0123\r\n6789");
  EXPECT_EQ(outcome.left, "GET");
}

TEST_P(ChunkedBodyParts, ExtensionsAndTrailersAreDropped) {
  const Outcome outcome =
      read("1;a=b\r\nx\r\n1 ;c=\"d;e\"\r\ny\r\n00\r\nTrailer: a\r\nb:\r\n\r\n", GetParam());
  EXPECT_EQ(outcome.refusal, 0);
  EXPECT_TRUE(outcome.is_done);
  EXPECT_EQ(outcome.body, "xy");
}

TEST_P(ChunkedBodyParts, OfTheWrongFormAreRefused) {
  for (const char* bytes : {"\r\n",
                            "x\r\n",
                            "-1\r\n",
                            "+1\r\n",
                            "0x1\r\n",
                            " 1\r\n",
                            "1 \r\nx\r\n",
                            "1 a\r\n",
                            "1\nx\n",
                            "1\rx",
                            "1;a\nb\r\nx\r\n",
                            "1;a=\"\n\"\r\nx\r\n",
                            "1;a=\"\r\n\"\r\nx",
                            "1\r\nxy\r\n",
                            "1\r\nx\n",
                            "1\r\nx1\r\n",
                            "00000000000000001\r\nx\r\n",
                            "0\r\na b: c\r\n\r\n",
                            "0\r\na: b\r\n c\r\n\r\n",
                            "0\r\n\n",
                            "1;a\x7F\r\n"})
    EXPECT_EQ(refusal(bytes), 400) << bytes;
}

TEST_P(ChunkedBodyParts, AreBounded) {
  EXPECT_EQ(refusal("64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n"), 0);
  EXPECT_EQ(refusal("65\r\n"), 413);
  EXPECT_EQ(refusal("63\r\n" + std::string(99, 'x') + "\r\n2\r\n"), 413);
  EXPECT_EQ(refusal("ffffffffffffffff\r\n"), 413);
  EXPECT_EQ(refusal("1;" + std::string(60, 'a')), 431);
  EXPECT_EQ(refusal("1;aaaaaaaaaaaaaaaaaaaa\r\nx\r\n1;aaaaaaaaaaaaaaaaaaaa\r\nx\r\n"), 431);
  EXPECT_EQ(refusal("0\r\na: bbbbbbbbbbbbbbbbbbb\r\na: bbbbbbbbbbbbbbbbbbb\r\n\r\n"), 431);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChunkedBodyParts, testing::Values(1, 2, 3, 1000));

}  // namespace
}  // namespace nibble::server
