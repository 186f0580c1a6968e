// Tests that JSON survives a short lack of memory. core/text/json_fwd.h describes the danger.
#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "core/text/json.h"
#include "core/text/remove_member.h"
#include "tests/memory/failing_memory.h"

namespace nibble {
namespace {

// Runs f() in its own thread, once per allocation of f(), and makes this allocation fail. Returns the number
// of runs that threw std::bad_alloc.
template <typename Prepare, typename F>
int fail_each(const Prepare& prepare, const F& f) {
  test::spare_this_thread();
  int num_thrown = 0;
  bool has_failed = true;
  for (int64_t k = 1; has_failed; ++k)
    std::thread([&] {
      auto value = prepare();
      const test::FailingMemory memory(k);
      try {
        f(value);
      } catch (const std::bad_alloc&) {
        ++num_thrown;
      }
      has_failed = memory.has_failed();
    }).join();
  return num_thrown;
}

template <typename Json>
class JsonMemory : public testing::Test {};
using BothKinds = testing::Types<nlohmann::json, nlohmann::ordered_json>;
TYPED_TEST_SUITE(JsonMemory, BothKinds);

TYPED_TEST(JsonMemory, TheEndOfAValueNeverThrows) {
  const auto nested = [] { return TypeParam::parse(R"([[1, [2, 3]], {"a": [4, {"b": 5}], "c": []}])"); };
  EXPECT_EQ(fail_each(nested, [](TypeParam& value) { value = nullptr; }), 0);
}

TYPED_TEST(JsonMemory, ANullThatCannotBecomeMoreStaysNull) {
  const auto null = [] { return TypeParam(); };
  EXPECT_GT(fail_each(null, [](TypeParam& value) { value["a key of more bytes than fit in a string"] = 1; }),
            0);
  EXPECT_GT(
      fail_each(null,
                [](TypeParam& value) { value.push_back("a string of more bytes than fit in a string"); }),
      0);
  EXPECT_GT(fail_each(null, [](TypeParam& value) { value = TypeParam::parse(R"({"a": [1, {"b": [2]}]})"); }),
            0);
}

TYPED_TEST(JsonMemory, AValueIsComparedWithATextWithoutMemory) {
  const auto text = [] { return TypeParam("a string of more bytes than fit in a string"); };
  EXPECT_EQ(fail_each(text,
                      [](const TypeParam& value) {
                        EXPECT_TRUE(value == "a string of more bytes than fit in a string");
                        EXPECT_TRUE(value != "another string of more bytes than fit in a string");
                      }),
            0);
}

TEST(RemoveMember, LeavesTheOthersInOrder) {
  nlohmann::ordered_json object = {{"z", 1}, {"a", 2}, {"m", 3}};
  remove_member(object, "absent");
  remove_member(object, "a");
  EXPECT_EQ(object.dump(), R"({"z":1,"m":3})");
}

TEST(RemoveMember, LeavesNoMemberThatIsDestroyedTwice) {
  const auto object = [] {
    return nlohmann::ordered_json{{"the first of three long names", "a text that needs memory of its own"},
                                  {"the second of three long names", "a text that needs memory of its own"},
                                  {"the third of three long names", "a text that needs memory of its own"}};
  };
  EXPECT_GT(
      fail_each(object,
                [](nlohmann::ordered_json& value) { remove_member(value, "the first of three long names"); }),
      0);
}

}  // namespace
}  // namespace nibble
