// Tests string formats against the rules of their standards.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/json.h"
#include "grammar/languages/schema/json_schema.h"
#include "tests/error_of.h"
#include "tests/grammar/vocabularies.h"

namespace nibble::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Compiled format_of(const char* name) { return compile_json_schema({{"type", "string"}, {"format", name}}); }
bool has_text(const Compiled& compiled, const std::string& text) {
  return accepts(compiled, Json(text).dump());
}
std::string repeated(size_t num, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < num; ++i) all += text;
  return all;
}

struct FormatCase {
  const char* name;
  std::vector<std::string> valid, invalid;
};

void PrintTo(const FormatCase& test, std::ostream* out) { *out << test.name; }

class StandardFormat : public testing::TestWithParam<FormatCase> {};

TEST_P(StandardFormat, HasTheTextsOfItsStandard) {
  const Compiled compiled = format_of(GetParam().name);
  for (const std::string& text : GetParam().valid) EXPECT_TRUE(has_text(compiled, text)) << text;
  for (const std::string& text : GetParam().invalid) EXPECT_FALSE(has_text(compiled, text)) << text;
}

const std::string kLabel63 = repeated(63, "a"), kName253 = repeated(3, kLabel63 + ".") + repeated(61, "b");

INSTANTIATE_TEST_SUITE_P(
    Times, StandardFormat,
    testing::ValuesIn(std::vector<FormatCase>{
        {"date",
         {"0000-01-01", "0000-02-29", "1600-02-29", "1996-02-29", "2024-02-29", "2025-04-30", "9999-12-31"},
         {"", "1900-02-29", "2023-02-29", "2024-02-30", "2025-04-31", "2025-13-01", "2025-00-10", "2025-1-10",
          "25-01-10", "12025-01-10", "2025-01-32", "2025-01-00", "2025/01/01", "2025-01-01T", "２025-01-01"}},
        {"time",
         {"00:00:00Z", "23:59:59z", "12:34:56.7+23:59", "12:34:56-00:00", "23:59:60Z", "23:59:60.25z",
          "12:00:00." + repeated(40, "1") + "Z"},
         {"", "12:34:56", "12:34Z", "24:00:00Z", "12:60:00Z", "12:34:61Z", "12:34:56.Z", "12:34:56+24:00",
          "12:34:56+0100", "12:34:56+01", "12:34:60Z", "23:59:60", "12:34:56,5Z", "1:34:56Z", "T12:34:56Z"}},
        {"date-time",
         {"2016-12-31T23:59:60Z", "2016-12-31t18:59:60.5-05:00", "2017-01-01T05:29:60+05:30",
          "2024-02-29T00:00:00.123456789012Z"},
         {"2024-02-29", "2024-02-29 00:00:00Z", "2023-02-29T00:00:00Z", "2016-12-31T23:58:60Z",
          "2024-02-29T00:00:00", "2024-02-29TT00:00:00Z"}},
        {"duration",
         {"P1Y", "P1Y2M", "P1Y2M3D", "P1M3D", "P3D", "P2W", "PT1H", "PT1H2M3S", "PT2M", "PT2M3S", "PT3S",
          "P1Y2M3DT4H5M6S", "P3DT6S", "P007D", "PT" + repeated(30, "9") + "S"},
         {"", "P", "PT", "P1YT", "P1Y3D", "PT1H3S", "P1W2D", "P2D1Y", "P1H", "PT1D", "1D", "-P1D", "P1.5D",
          "PT0.5S", "P1"}}}));

INSTANTIATE_TEST_SUITE_P(
    Hosts, StandardFormat,
    testing::ValuesIn(std::vector<FormatCase>{
        {"hostname",
         {"localhost", "a", "1", "a.b.c.d.example.com", "ec2-12-34-56-78.compute-1.amazonaws.com", "a--b.com",
          "xn--bcher-kva.example", "EXAMPLE.org", kLabel63 + ".com", kName253, repeated(126, "a.") + "a"},
         {"", ".", "a.", ".a", "a..b", "-a", "a-", "a-.b", "a.-b", "a_b", "a b", "bücher.example", "a\n",
          kLabel63 + "a.com", kName253 + "b", repeated(127, "a.") + "a"}},
        {"email",
         {"noreply-notifications@example.com", "anna@mail.eng.example.co.uk", "user@localhost", "a@b",
          "a.b.c.d.e@example.com", "!#$%&'*+/=?^_`{|}~-@example.com", R"("john doe"@example.com)",
          R"("a\"b\\c@d"@example.com)", R"(""@example.com)", "x@[127.0.0.1]", "x@[127.000.000.001]",
          "x@[IPv6:2001:db8::1]", "x@[ipv6:::1]", "x@[IPv6:::ffff:1.2.3.4]",
          repeated(64, "x") + "@" + kName253, "\"" + repeated(62, "x") + "\"@b", "x@" + kLabel63 + ".com"},
         {"",
          "a",
          "@b",
          "a@",
          "a@b@c",
          ".a@b",
          "a.@b",
          "a..b@c",
          "a b@c",
          "a@b_c",
          "a@-b",
          "a@b-",
          "a@b.",
          "a@.b",
          "a@[1.2.3]",
          "a@[256.0.0.1]",
          "a@[::1]",
          "a@[IPv6:1::2::3]",
          "a@[IPv6:1:2:3:4:5:6:7::]",
          "a@[IPv6:1.2.3.4]",
          R"("a"b@c)",
          R"("a"@c")",
          R"("a\"@c)",
          "jürgen@example.com",
          "a@b\n",
          repeated(65, "x") + "@b",
          "\"" + repeated(63, "x") + "\"@b",
          "a@" + kName253 + "b",
          "a@" + kLabel63 + "a"}},
        {"ipv4",
         {"0.0.0.0", "255.255.255.255", "127.0.0.1", "8.8.4.4", "199.249.250.99"},
         {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.04", "1.2.3.4 ", "0x1.2.3.4", "1.2.3.+4", "1..2.3"}},
        {"uuid",
         {"123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000",
          "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"},
         {"", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
          "{123e4567-e89b-12d3-a456-426614174000}", "123e4567-e89b-12d3-a456-42661417400g"}}}));

INSTANTIATE_TEST_SUITE_P(
    References, StandardFormat,
    testing::ValuesIn(std::vector<FormatCase>{
        {"uri",
         {"https://a.example/b?c=d#e",
          "http://[::1]",
          "http://[::1]:8080/a",
          "http://[2001:db8::7]/?q",
          "http://[v1.a:b]/",
          "http://user:pw@host:80/",
          "http://host:/",
          "file:///etc/hosts",
          "file:/etc",
          "mailto:a@b",
          "urn:isbn:1",
          "tel:+1-2",
          "about:",
          "a:b:c",
          "x://",
          "http://a/%41%2f",
          "http://a//b//",
          "http://999.1.1.1/",
          "s3+a.b-c://x",
          "data:,a",
          "a:?b",
          "a:#",
          "a:/?b/c?d#e/f?g"},
         {"",
          "a",
          "//a/b",
          "/a",
          "1a:b",
          "a b:c",
          "http://a b",
          "http://[::1",
          "http://[::g]",
          "http://::1",
          "http://[1.2.3.4]",
          "http://[v.a]",
          "http://a:b/",
          "http://a@b@c/",
          "http://a/%4",
          "http://a/%zz",
          "http://a/[b]",
          "http://a/b|c",
          "http://a/{b}",
          "http://a/\"",
          "http://a/\\",
          "http://a/é",
          "a:#b#c"}},
        {"uri-reference",
         {"", "a", "images/logo.png", "./src", "../a/b", "./a:b", "a/b:c", "?q", "#f", "//host/a", "//", "/",
          "/a", "https://a.example/b", "a?b:c", "@", "%41", "//[::1]/", "a//b"},
         {"1:b", "a b", "\\a", "/é", "/%4", "/[::1]", "//a:b/", "//a@b@c", "#a#b", ":a", "/a|b"}},
        {"iri",
         {"https://bücher.example/straße?ä=ö#ü", "http://[::1]/é", "http://a/?q=\xEE\x80\x80", "urn:é",
          "http://a/\xF0\x90\x8C\x80", "http://a/b"},
         {"/é", "é", "http://a/\xEE\x80\x80", "http://a/<é>", "http://a/\xEF\xBF\xBF", "http://2001:db8::1",
          "http://[::é]/"}},
        {"iri-reference",
         {"", "é", "//é/ü", "/é?ü#ß", "?\xEE\x80\x80", "https://é"},
         {"é ü", "\\é", "1:é", "%é"}},
        {"uri-template",
         {"", "a", "/users/{id}", "{+a}{#b}{.c}{/d}{;e}{?f,g}{&h*}", "{a:1}{b:9999}", "{a.b}{%41_}", "{=a}",
          "é'a'%41"},
         {"{",      "}",     "{}",     "{a",  "a}",  "{a,}", "{,}",  "{a:0}", "{a:10000}", "{a:01}",
          "{a*:3}", "{a b}", "{a..b}", "{.}", "a b", "<a>",  "a\"b", "%4",    "{a-b}",     "{é}"}},
        {"json-pointer",
         {"", "/", "/a", "/a/b", "//", "/a~0b~1c", "/ é\"\\", "/~01"},
         {"a", "#", "#/a", "/~", "/~2", "/a~", "a/b"}},
        {"relative-json-pointer",
         {"0", "1", "0#", "12/a/b", "0/", "1+1/a", "0-1", "0-1#"},
         {"", "/a", "#", "01", "-1", "+1", "0##", "1a", "0/~2", "1#/a"}}}));

// Tests addresses with any number of groups before and after a `::`, and without a `::`. In both cases the
// last two groups may be written as an IPv4 address.
TEST(Ipv6, HasEightGroupsOrTwoColonsForThoseThatAreMissing) {
  const Compiled ipv6 = format_of("ipv6");
  const auto groups = [](int num, bool has_ipv4) {
    std::string text;
    for (int i = 0; i < num; ++i) text += fmt::format("{}{:x}", i > 0 ? ":" : "", 0xFFFF >> 4 * (i % 4));
    if (has_ipv4) text += num > 0 ? ":1.2.3.255" : "1.2.3.255";
    return text;
  };
  int num_valid = 0;
  for (int before = 0; before <= 9; ++before)
    for (const bool has_ipv4 : {false, true}) {
      EXPECT_EQ(has_text(ipv6, groups(before, has_ipv4)), before + 2 * has_ipv4 == 8)
          << groups(before, has_ipv4);
      for (int after = 0; after <= 9; ++after) {
        const std::string text = groups(before, false) + "::" + groups(after, has_ipv4);
        const bool expected = before + after + 2 * has_ipv4 <= 7;
        EXPECT_EQ(has_text(ipv6, text), expected) << text;
        num_valid += expected;
      }
    }
  EXPECT_EQ(num_valid, 36 + 21);
  for (const char* text :
       {"", ":", ":::", "1:::2", "1::2::3", ":1:2:3:4:5:6:7", "1:2:3:4:5:6:7:", "12345::", "::g",
        "1.2.3.4::", "::1.2.3", "::01.2.3.4", "::1.2.3.4:5", "[::1]", "::1%eth0", "::1/64"})
    EXPECT_FALSE(has_text(ipv6, text)) << text;
}

// A leap second is 23:59:60 UTC. The test writes it in the local time of every offset.
TEST(Time, ALeapSecondEndsADayInUtc) {
  const Compiled time = format_of("time"), date_time = format_of("date-time");
  const auto text = [](int minute_of_day, char sign, int offset) {
    minute_of_day = (minute_of_day + 2880) % 1440;
    return fmt::format("{:02}:{:02}:60{}{:02}:{:02}", minute_of_day / 60, minute_of_day % 60, sign,
                       offset / 60, offset % 60);
  };
  for (int offset = 0; offset < 1440; offset += 7)
    for (const char sign : {'+', '-'}) {
      const int local = 1439 + (sign == '+' ? offset : -offset);
      EXPECT_TRUE(has_text(time, text(local, sign, offset))) << text(local, sign, offset);
      EXPECT_TRUE(has_text(date_time, "2016-12-31T" + text(local, sign, offset)));
      for (const int wrong : {1, -1, 60, -60, 720, 59})
        EXPECT_FALSE(has_text(time, text(local + wrong, sign, offset))) << text(local + wrong, sign, offset);
    }
}

TEST(FormatsBesideOtherKeywords, LengthsHold) {
  struct {
    const char* schema;
    std::string valid, too_short, too_long;
  } const cases[]{
      {R"({"format":"email","minLength":6,"maxLength":12})", "a@b.example", "a@b.c", "a@bbb.example"},
      {R"({"format":"hostname","minLength":3,"maxLength":5})", "a.b-c", "ab", "ab.c-d"},
      {R"({"format":"time","minLength":11,"maxLength":1000000})", "23:59:60.1Z", "23:59:60Z", "23:59:60.1"},
      {R"({"format":"date-time","maxLength":20})", "2016-12-31T23:59:60Z", "", "2016-12-31T23:59:60.1Z"},
      {R"({"format":"iri-reference","maxLength":9,"pattern":"^.{5,40}$"})", "../a/b-é", "../a", "../a/b-é/c"},
      {R"({"format":"uri","maxLength":9})", "http://ab", "", "http://abc"},
      {R"({"format":"ipv6","minLength":3,"maxLength":4})", "::1a", "::", "::1ab"}};
  for (const auto& test : cases) {
    const Compiled compiled = compile_json_schema(Json::parse(test.schema));
    EXPECT_TRUE(has_text(compiled, test.valid)) << test.schema;
    EXPECT_FALSE(has_text(compiled, test.too_short)) << test.schema;
    EXPECT_FALSE(has_text(compiled, test.too_long)) << test.schema;
    check_masks_along(compiled, Json(test.valid).dump());
  }
}

TEST(FormatsBesideOtherKeywords, PatternsValuesAndNamesHold) {
  const Compiled company =
      compile_json_schema(Json::parse(R"({"format":"email","pattern":"@example\\.com$","maxLength":320})"));
  EXPECT_TRUE(has_text(company, "anna.lena@example.com"));
  EXPECT_FALSE(has_text(company, "anna.lena@example.org"));
  check_masks_along(company, "\"an@example.com\"");
  EXPECT_TRUE(has_text(compile_json_schema(Json::parse(
                           R"({"format":"email","enum":["noreply-notifications@example.com","nobody"]})")),
                       "noreply-notifications@example.com"));
  const Compiled hosts = compile_json_schema(
      Json::parse(R"({"type":"object","propertyNames":{"format":"hostname","maxLength":9}})"));
  EXPECT_TRUE(accepts(hosts, R"({"a.b.c.d.e":1})"));
  EXPECT_FALSE(accepts(hosts, R"({"a.b.c.d.ef":1})"));
  EXPECT_FALSE(accepts(hosts, R"({"a_b":1})"));
}

// The automaton of correct leap seconds has too many states to be combined with other keywords. Next to other
// keywords, it is replaced by one that allows second 60 in every minute.
TEST(FormatsBesideOtherKeywords, ATimeAllowsEveryLeapSecondAndAWarningSaysSo) {
  for (const char* other : {R"("pattern":"Z$")", R"("pattern":"a.*b|^[0-9T:Z-]+$")", R"("maxLength":20)",
                            R"("minLength":1)", R"("not":{"const":"2000-01-01T00:00:00Z"})"}) {
    const Compiled compiled = compile_json_schema(
        Json::parse(fmt::format(R"({{"type":"string","format":"date-time",{}}})", other)));
    EXPECT_TRUE(has_text(compiled, "2016-12-31T23:59:60Z")) << other;
    EXPECT_TRUE(has_text(compiled, "2016-12-31T12:00:60Z")) << other;
    EXPECT_FALSE(has_text(compiled, "2016-12-31T12:00:61Z")) << other;
    EXPECT_THAT(compiled.warnings,
                ElementsAre("next to other keywords, the format 'date-time' is enforced except "
                            "for the time of day of a leap second"));
  }
  EXPECT_THAT(error_of([] {
                compile_json_schema(Json::parse(R"({"type":"string","format":"time","pattern":"a"})"));
              }),
              HasSubstr("no text satisfies the grammar or schema"));
}

TEST(FormatsBesideOtherKeywords, AFormatMayFail) {
  const Compiled no_date = compile_json_schema(Json::parse(R"({"type":"string","not":{"format":"date"}})"));
  for (const char* text : {"", "2024-02-30", "2024-02-2", "2024-02-290", "a"})
    EXPECT_TRUE(has_text(no_date, text)) << text;
  EXPECT_FALSE(has_text(no_date, "2024-02-29"));
  EXPECT_THAT(no_date.warnings, IsEmpty());
  check_masks_along(no_date, "\"2024-02-3x\"");

  // 1.2.3.4 is both an IPv4 address and a host name, so `oneOf` refuses it.
  const Compiled host = compile_json_schema(Json::parse(
      R"({"oneOf":[{"type":"string","format":"ipv4"},{"type":"string","format":"ipv6"},{"type":"string","format":"hostname"}]})"));
  for (const char* text : {"::1", "a.b", "1.2.3.4.5", "1.2.3"}) EXPECT_TRUE(has_text(host, text)) << text;
  for (const char* text : {"1.2.3.4", "a b", ":::"}) EXPECT_FALSE(has_text(host, text)) << text;

  const Compiled when = compile_json_schema(Json::parse(
      R"({"type":"string","oneOf":[{"format":"date"},{"format":"date-time"},{"enum":["now"]}]})"));
  for (const char* text : {"2024-02-29", "2024-02-29T00:00:00Z", "now"})
    EXPECT_TRUE(has_text(when, text)) << text;
  EXPECT_FALSE(has_text(when, "then"));
}

TEST(FormatsWithWarnings, NameWhatIsNotChecked) {
  EXPECT_THAT(format_of("email").warnings, IsEmpty());
  EXPECT_THAT(format_of("date-time").warnings, IsEmpty());
  EXPECT_THAT(
      format_of("hostname").warnings,
      ElementsAre("the format 'hostname' is enforced except for the Punycode of labels that begin with "
                  "'xn--'"));
  EXPECT_THAT(format_of("idn-hostname").warnings,
              ElementsAre("the format 'idn-hostname' is unknown and not enforced"));
}

}  // namespace
}  // namespace nibble::grammar
