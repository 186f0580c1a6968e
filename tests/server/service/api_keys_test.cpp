#include "server/service/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ApiKeys keys_of(std::string_view file) {
  ApiKeys keys;
  keys.add_lines(file, "keys");
  return keys;
}
std::string why_refused(std::string_view file) {
  return error_of([&] { keys_of(file); });
}

TEST(ApiKeys, AFileHasAKeyOnEachLineAndCommentsBetween) {
  const ApiKeys keys = keys_of("# the team\n\n  sk-one \r\n\t# sk-old\nalice:sk-two\nbob: sk:three");
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.find("sk-one")->name, "key-1");
  EXPECT_EQ(keys.find("sk-two")->name, "alice");
  EXPECT_EQ(keys.find("sk:three")->name, "bob");
  for (const char* unknown : {"", "# the team", "sk-old", "# sk-old", "alice:sk-two", "sk-on", "sk-one "})
    EXPECT_EQ(keys.find(unknown), nullptr) << unknown;
}

TEST(ApiKeys, AFileWithoutAKeyIsRefused) {
  for (const char* file : {"", "\n\n", "# only\n  # comments\n", " \t\r\n"})
    EXPECT_THAT(why_refused(file), HasSubstr("--api-key-file 'keys' has no key")) << file;
}

TEST(ApiKeys, AWrongLineIsNamedWithoutItsKey) {
  for (const char* wrong : {"al ice:secret", ":secret", "key-7:secret", "secret # of the team",
                            "bob:secret\x01", "sécret", "alice:", "a,b:secret"})
    EXPECT_THAT(why_refused("# first\n" + std::string(wrong)),
                AllOf(HasSubstr("'keys', line 2"), Not(HasSubstr("secret"))))
        << wrong;
  EXPECT_THAT(why_refused("alice:secret\nbob:secret"),
              AllOf(HasSubstr("line 2"), HasSubstr("'bob'"), HasSubstr("'alice'"), Not(HasSubstr("secret"))));
}

TEST(ApiKeys, KeysOfOneNameHaveOneOwnerAndOthersDoNot) {
  const ApiKeys keys = keys_of("alice:old\nalice:new\nbob:b\nx\ny");
  EXPECT_EQ(keys.find("old")->owner, keys.find("new")->owner);
  EXPECT_NE(keys.find("old")->owner, keys.find("b")->owner);
  EXPECT_NE(keys.find("x")->owner, keys.find("y")->owner);
}

TEST(ApiKeys, AnOwnerStaysWhenLinesAreAddedAndTakenAway) {
  const ApiKeys before = keys_of("x\ny\nz"), after = keys_of("new\ny\nz");
  EXPECT_EQ(before.find("y")->owner, after.find("y")->owner);
  EXPECT_NE(before.find("x")->owner, after.find("new")->owner);
  EXPECT_NE(keys_of("alice").find("alice")->owner, keys_of("alice:k").find("k")->owner);
}

TEST(ApiKeys, TheSameKeyTwiceIsOneKey) { EXPECT_EQ(keys_of("x\nx\nalice:y\nalice:y\ny").size(), 2u); }

}  // namespace
}  // namespace nibble::server
