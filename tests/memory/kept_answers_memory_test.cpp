// Makes allocations of the store for answers fail.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include "server/service/kept_answers.h"
#include "tests/memory/failing_memory.h"

namespace nibble::server {
namespace {

// Makes each allocation of add(), append() and a new reader fail in turn.
TEST(KeptAnswersMemory, AnAnswerThatCannotBeAddedOrReadLeavesNothing) {
  test::spare_this_thread();
  bool has_failed = true;
  for (int64_t k = 1; has_failed; ++k) {
    SCOPED_TRACE(k);
    boost::asio::io_context io;
    KeptAnswers kept({.max_bytes = 1 << 20, .time = std::chrono::hours(1)});
    const OwnedId id{"the owner's name", "an id too long for the place within a string"};
    bool is_added = false;
    std::thread([&] {
      const test::FailingMemory memory(k);
      try {
        const std::shared_ptr<KeptAnswer> answer =
            kept.add(io.get_executor(), id, {.has_id_lines = true, .ends_unread = true});
        is_added = true;
        const KeptAnswer::Reader reader(answer, 0);
        answer->append("data: one\n\ndata: two\n\n");
      } catch (const std::bad_alloc&) {
      }
      has_failed = memory.has_failed();
    }).join();
    ASSERT_EQ(kept.num_answers(), is_added ? 1u : 0u);
    ASSERT_EQ(kept.find(id) != nullptr, is_added);
    ASSERT_EQ(kept.erase(id), is_added);
    ASSERT_EQ(kept.num_answers(), 0u);
    ASSERT_EQ(kept.num_bytes(), 0u);
    kept.clear();
  }
}

}  // namespace
}  // namespace nibble::server
