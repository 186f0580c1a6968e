// Dates and times of RFC 3339.
#include "grammar/languages/schema/format_parts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {
namespace {

constexpr std::string_view kFraction{R"((?:\.\d+)?)"};
constexpr std::string_view kHour{"(?:[01][0-9]|2[0-3])"}, kMinute{"[0-5][0-9]"};

std::string joined(const std::vector<std::string>& alternatives) {
  return fmt::format("(?:{})", fmt::join(alternatives, "|"));
}

// A leap second is 23:59:60 UTC, so its local time determines the UTC offset: the local hours and minutes
// plus one minute; for a negative offset, this less 24 hours. leap_minutes() checks the minutes,
// leap_hours() the hours.
std::string leap_minutes() {
  std::vector<std::string> minutes;
  for (int minute = 0; minute < 60; ++minute) {
    const int next = (minute + 1) % 60, missing = (60 - next) % 60;
    minutes.push_back(fmt::format(R"({:02}:60{}(?:\+{}:{:02}|-{}:{:02}{}))", minute, kFraction, kHour, next,
                                  kHour, missing, next == 0 ? "|[Zz]" : ""));
  }
  return fmt::format("{}:{}", kHour, joined(minutes));
}

std::string leap_hours() {
  std::vector<std::string> hours;
  for (int hour = 0; hour < 24; ++hour)
    for (const bool is_last_minute : {false, true}) {
      const int next = (hour + is_last_minute) % 24, missing = is_last_minute ? (24 - next) % 24 : 23 - next;
      hours.push_back(fmt::format(R"({:02}:{}:60{}(?:\+{:02}:{}|-{:02}:{}{}))", hour,
                                  is_last_minute ? "59" : "(?:[0-4][0-9]|5[0-8])", kFraction, next, kMinute,
                                  missing, kMinute, is_last_minute && next == 0 ? "|[Zz]" : ""));
    }
  return joined(hours);
}

Expression time_with_seconds(Expressions& e, std::string_view seconds) {
  return whole_match(e,
                     fmt::format("{0}:{1}:{2}{3}(?:[Zz]|[+-]{0}:{1})", kHour, kMinute, seconds, kFraction));
}

Expression date_and(Expressions& e, Expression time) {
  return e.concat(std::vector{date_format(e), whole_match(e, "[Tt]"), time});
}

}  // namespace

// Matches dates, with 29 February only in leap years.
Expression date_format(Expressions& e) {
  constexpr std::string_view kLeapYear{
      R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00))"};
  return whole_match(
      e, fmt::format(
             R"(\d{{4}}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30))"
             R"(|02-(?:0[1-9]|1\d|2[0-8]))|{}-02-29)",
             kLeapYear));
}

Expression time_format(Expressions& e) {
  return e.any_of(time_with_seconds(e, kMinute),
                  e.all_of(whole_match(e, leap_minutes()), whole_match(e, leap_hours())));
}

Expression time_format_of_any_leap_second(Expressions& e) {
  return time_with_seconds(e, "(?:[0-5][0-9]|60)");
}

Expression date_time_format(Expressions& e) { return date_and(e, time_format(e)); }

Expression date_time_format_of_any_leap_second(Expressions& e) {
  return date_and(e, time_format_of_any_leap_second(e));
}

// Matches the durations of RFC 3339, appendix A.
Expression duration_format(Expressions& e) {
  constexpr std::string_view kTime{R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"};
  return whole_match(
      e, fmt::format(R"(P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:{0})?|{0}))", kTime));
}

}  // namespace nibble::grammar
