#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/bench_serve/event_stream.h"

namespace nibble::cli {
namespace {

using testing::ElementsAre;

TEST(EventStream, GivesTheDataOfEachEventAndNothingElse) {
  EXPECT_THAT(EventStream().push("data: {\"a\":1}\n\n"), ElementsAre("{\"a\":1}"));
  EXPECT_THAT(EventStream().push(":\n\nevent: x\nid: 3\ndata:a\ndata:  b\n\ndata\n\nevent: y\n\n"),
              ElementsAre("a\n b"));
  EXPECT_THAT(EventStream().push("data: a\r\n\r\ndata: b\r\rdata: \n\ndata: no end\n"),
              ElementsAre("a", "b", ""));
}

TEST(EventStream, DoesNotCareWhereTheBytesAreCut) {
  const std::string said = ": hi\r\n\r\ndata: one\r\n\r\ndata: tw\xC3\xB6\ndata:2\n\ndata: [DONE]\n\n";
  for (size_t first = 0; first <= said.size(); ++first) {
    for (size_t second = first; second <= said.size(); ++second) {
      EventStream stream;
      std::vector<std::string> events;
      for (const auto& part :
           {said.substr(0, first), said.substr(first, second - first), said.substr(second)})
        for (const std::string& event : stream.push(part)) events.push_back(event);
      ASSERT_THAT(events, ElementsAre("one", "tw\xC3\xB6\n2", "[DONE]")) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace nibble::cli
